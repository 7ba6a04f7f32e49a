package query

import "strings"

// What is known from elsewhere, and not offered here, with what to do.
const (
	noJoin     = "use a path through the elements, as in c.tags[] = 'x'"
	noCompute  = "a path is compared with a constant; compute in the program, or keep the result in the document"
	noSubquery = "ask one query after the other"
	noPattern  = "there are STARTSWITH and CONTAINS"
)

// wordsNotOffered are the words of other dialects.
var wordsNotOffered = map[string]string{
	"LIKE": noPattern, "ESCAPE": noPattern,
	"JOIN": noJoin, "EXISTS": noSubquery,
	"HAVING": "choose among the groups in the program",
	"UNION":  noSubquery, "INTERSECT": noSubquery, "EXCEPT": noSubquery,
}

// functionsNotOffered are functions of other dialects; all others are unknown.
var functionsNotOffered = map[string]string{
	"ENDSWITH": noPattern, "REGEXMATCH": noPattern, "INDEX_OF": noPattern, "STRINGEQUALS": "use =",
	"LOWER": noCompute, "UPPER": noCompute, "LENGTH": noCompute, "CONCAT": noCompute, "SUBSTRING": noCompute, "LEFT": noCompute, "RIGHT": noCompute,
	"TRIM": noCompute, "LTRIM": noCompute, "RTRIM": noCompute, "REPLACE": noCompute, "REPLICATE": noCompute, "REVERSE": noCompute, "TOSTRING": noCompute,
	"STRINGTONUMBER": noCompute, "STRINGTOBOOLEAN": noCompute, "ABS": noCompute, "CEILING": noCompute, "FLOOR": noCompute, "ROUND": noCompute,
	"TRUNC": noCompute, "SQRT": noCompute, "POWER": noCompute, "EXP": noCompute, "LOG": noCompute, "LOG10": noCompute, "SIGN": noCompute, "RAND": noCompute,
	"ARRAY_LENGTH": noCompute, "ARRAY_CONCAT": noCompute, "ARRAY_SLICE": noCompute, "ARRAY": noSubquery,
	"ARRAY_CONTAINS_ANY": "join several ARRAY_CONTAINS by OR", "ARRAY_CONTAINS_ALL": "join several ARRAY_CONTAINS by AND",
	"IIF": noCompute, "COALESCE": noCompute, "GETCURRENTDATETIME": "give the time as a parameter", "GETCURRENTTIMESTAMP": "give the time as a parameter",
	"ST_DISTANCE": "there are no functions of places", "ST_WITHIN": "there are no functions of places", "ST_INTERSECTS": "there are no functions of places",
	"IS_INTEGER": "there is IS_NUMBER", "IS_FINITE_NUMBER": "there is IS_NUMBER",
}

// signsNotOffered are characters that begin what is not offered.
var signsNotOffered = map[rune]string{
	'{': "objects and arrays are neither made nor compared with: " + noCompute,
	'+': noCompute, '/': noCompute, '%': noCompute, '&': noCompute, '|': noCompute, '^': noCompute, '~': noCompute, '?': noCompute,
}

// notOffered looks for the first word of a text that is no query which is not
// offered.
func (p *parser) notOffered() (at int, msg string, ok bool) {
	l := lexer{text: p.text}
	var before token
	for {
		t, err := l.scan()
		if err != nil || t.kind == tokenEnd {
			return 0, "", false
		}
		if t.kind == tokenWord && t.text != p.alias && !(before.kind == tokenSign && before.text == ".") && !(before.kind == tokenWord && strings.EqualFold(before.text, "AS")) {
			word := upper(t.text)
			instead, known := wordsNotOffered[word]
			switch rest := l; {
			case known:
			case word == "SELECT" && before.kind == tokenSign && before.text == "(":
				word, instead, known = "(SELECT …)", noSubquery, true
			default:
				if next, err := rest.scan(); err == nil && next.kind == tokenSign && next.text == "(" {
					instead, known = functionsNotOffered[word]
				}
			}
			if known {
				return t.at, word + " is not offered: " + instead, true
			}
		}
		before = t
	}
}
