package partmap_test

import (
	"fmt"

	"github.com/cleavestore/cleave/partmap"
)

func ExampleKey() {
	key, err := partmap.Join(partmap.String("redmond"), partmap.Bool(true))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(key, key.Len())
	fmt.Println(key.EPK())
	// Output:
	// ["redmond",true] 2
	// 22E342F38A486A088463DFF7838A59630E711127C5B5A8E4726AC6DD306A3E59
}

func ExampleParse() {
	for _, text := range []string{`"DE"`, `2024`, `undefined`, `["acme", null]`, `DE`} {
		key, err := partmap.Parse(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%v %x\n", key, key.Encoded())
	}
	// Output:
	// "DE" 084445ff
	// 2024 050000000000a09f40
	// undefined 00
	// ["acme",null] 0861636d65ff01
	// invalid partition key: offset 0: expected "string", number, true, false, null or undefined
}

func ExampleTable() {
	var entries []partmap.Entry
	for i, r := range partmap.Ranges(4) {
		entries = append(entries, partmap.Entry{ID: partmap.PartitionID(i + 1), Range: r})
	}
	table, err := partmap.NewTable(entries)
	if err != nil {
		fmt.Println(err)
		return
	}
	epk := partmap.String("redmond").EPK()
	e := table.Entry(table.Find(&epk))
	fmt.Println(epk)
	fmt.Println(e.ID, e.Range)
	// Output:
	// 22E342F38A486A088463DFF7838A5963
	// 3 [1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFE,2FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFD)
}

func ExampleMidpoint() {
	whole := partmap.Ranges(1)[0]
	fmt.Println(partmap.Midpoint(whole))
	// Output: 1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF
}
