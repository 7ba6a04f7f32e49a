package function

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cleavestore/cleave/internal/sql/value"
)

// A time is a string of UTC with a resolution of 100 ns, which is one tick. Times are counted
// from the first moment of 1970, in ticks or milliseconds.
const (
	tick        = 100 * time.Nanosecond
	ticksSecond = int64(time.Second / tick)
	ticksDay    = 24 * 60 * 60 * ticksSecond
	timeLayout  = "2006-01-02T15:04:05.0000000Z"
)

// The years that a time can have.
var (
	firstTick = ticksOf(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	lastTick  = ticksOf(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)) - 1
)

func ticksOf(t time.Time) int64 { return t.Unix()*ticksSecond + int64(t.Nanosecond())/int64(tick) }

func timeOfTicks(n int64) time.Time {
	s := floorDiv(n, ticksSecond)
	return time.Unix(s, (n-s*ticksSecond)*int64(tick)).UTC()
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// text returns a time as queries write it; undefined beyond the years 1 to 9999.
func text(t time.Time) value.Value {
	if n := ticksOf(t); n < firstTick || n > lastTick {
		return value.Value{}
	}
	return value.String(t.UTC().Format(timeLayout))
}

// timeOf reads a time: a date, or a date with a time and up to seven digits of a second, with
// or without Z.
func timeOf(v value.Value) (time.Time, bool) {
	s, ok := v.Text()
	if !ok || len(s) > 40 {
		return time.Time{}, false
	}
	s = strings.TrimSuffix(s, "Z")
	const date, hours = len("2006-01-02"), len("2006-01-02T15")
	if _, fraction, found := strings.Cut(s, "."); found && len(fraction) > 7 {
		return time.Time{}, false
	}
	// time.Parse takes an hour of one digit too, and a comma before the fraction.
	if strings.Contains(s, ",") || len(s) > date && (len(s) <= hours || s[hours] != ':') {
		return time.Time{}, false
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 0 {
			return t, true
		}
	}
	return time.Time{}, false
}

// unit is a part of a time.
type unit uint8

const (
	year unit = iota + 1
	month
	day
	hour
	minute
	second
	millisecond
	microsecond
	nanosecond
)

// units are the names of the parts.
var units = map[string]unit{
	"year": year, "yyyy": year, "yy": year, "month": month, "mm": month, "m": month, "day": day, "dd": day, "d": day,
	"hour": hour, "hh": hour, "minute": minute, "mi": minute, "n": minute, "second": second, "ss": second, "s": second,
	"millisecond": millisecond, "ms": millisecond, "microsecond": microsecond, "mcs": microsecond, "nanosecond": nanosecond, "ns": nanosecond,
}

// ticks returns the length of a unit in ticks; 0 if its length varies, or is less than one.
func (u unit) ticks() int64 {
	switch u {
	case day:
		return ticksDay
	case hour:
		return 3600 * ticksSecond
	case minute:
		return 60 * ticksSecond
	case second:
		return ticksSecond
	case millisecond:
		return ticksSecond / 1000
	case microsecond:
		return ticksSecond / 1_000_000
	}
	return 0
}

// unitOf reads the name of a part.
func unitOf(v value.Value) (unit, bool) {
	s, _ := v.Text()
	u, ok := units[strings.ToLower(s)]
	return u, ok
}

// months counts months from the first of the year 0.
func months(t time.Time) int64 { return int64(t.Year())*12 + int64(t.Month()) - 1 }

// later returns the time n units after t; the day is at most the last of its month.
func later(t time.Time, u unit, n int64) (time.Time, bool) {
	switch u {
	case year, month:
		if u == year {
			if n > 20_000 || n < -20_000 {
				return t, false
			}
			n *= 12
		}
		if n > 240_000 || n < -240_000 {
			return t, false
		}
		m := months(t) + n
		y, mon := floorDiv(m, 12), m-floorDiv(m, 12)*12
		last := time.Date(int(y), time.Month(mon+2), 0, 0, 0, 0, 0, time.UTC).Day()
		return time.Date(int(y), time.Month(mon+1), min(t.Day(), last), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC), true
	case nanosecond:
		n /= int64(tick)
		return addTicks(t, n, 1)
	}
	return addTicks(t, n, u.ticks())
}

func addTicks(t time.Time, n, each int64) (time.Time, bool) {
	if most := 2 * lastTick / each; n > most || n < -most {
		return t, false
	}
	return timeOfTicks(ticksOf(t) + n*each), true
}

// between returns how many boundaries of a unit lie between two times; for nanoseconds, how
// many ticks.
func between(u unit, a, b time.Time) int64 {
	switch u {
	case year:
		return int64(b.Year() - a.Year())
	case month:
		return months(b) - months(a)
	case nanosecond:
		return ticksOf(b) - ticksOf(a) // the caller makes them nanoseconds
	}
	return floorDiv(ticksOf(b), u.ticks()) - floorDiv(ticksOf(a), u.ticks())
}

// partOfTime returns a part of a time as a number.
func partOfTime(u unit, t time.Time) int64 {
	switch u {
	case year:
		return int64(t.Year())
	case month:
		return int64(t.Month())
	case day:
		return int64(t.Day())
	case hour:
		return int64(t.Hour())
	case minute:
		return int64(t.Minute())
	case second:
		return int64(t.Second())
	case millisecond:
		return int64(t.Nanosecond() / 1_000_000)
	case microsecond:
		return int64(t.Nanosecond() / 1_000)
	}
	return int64(t.Nanosecond())
}

func addDates() {
	present := func(name string, call func(t time.Time) value.Value) {
		impure("GETCURRENT"+name, 0, 0, func(e *Env, _ []value.Value) value.Value { return call(e.now()) })
		impure("GETCURRENT"+name+"STATIC", 0, 0, func(e *Env, _ []value.Value) value.Value { return call(e.Begun.UTC()) })
	}
	present("DATETIME", text)
	present("TICKS", func(t time.Time) value.Value { return value.Int(ticksOf(t)) })
	present("TIMESTAMP", func(t time.Time) value.Value { return value.Int(t.UnixMilli()) })
	impure("NOW", 0, 0, func(e *Env, _ []value.Value) value.Value { return text(e.now()) })
	moved := func(t time.Time, part, by value.Value, sign int64) value.Value {
		u, ok := unitOf(part)
		n, isInt := by.Int()
		if !ok || !isInt || n == math.MinInt64 {
			return value.Value{}
		}
		if t, ok = later(t, u, sign*n); !ok {
			return value.Value{}
		}
		return text(t)
	}
	impure("AGO", 2, 2, func(e *Env, args []value.Value) value.Value { return moved(e.now(), args[0], args[1], -1) })
	add("DATETIMEADD", 3, 3, func(_ *Env, args []value.Value) value.Value {
		t, ok := timeOf(args[2])
		if !ok {
			return value.Value{}
		}
		return moved(t, args[0], args[1], 1)
	})
	add("DATETIMEDIFF", 3, 3, func(_ *Env, args []value.Value) value.Value {
		u, ok := unitOf(args[0])
		a, okA := timeOf(args[1])
		b, okB := timeOf(args[2])
		if !ok || !okA || !okB {
			return value.Value{}
		}
		n := between(u, a, b)
		if u == nanosecond {
			if n > math.MaxInt64/int64(tick) || n < math.MinInt64/int64(tick) {
				return value.Value{}
			}
			n *= int64(tick)
		}
		return value.Int(n)
	})
	add("DATETIMEPART", 2, 2, func(_ *Env, args []value.Value) value.Value {
		u, ok := unitOf(args[0])
		t, isTime := timeOf(args[1])
		if !ok || !isTime {
			return value.Value{}
		}
		return value.Int(partOfTime(u, t))
	})
	for name, u := range map[string]unit{"YEAR": year, "MONTH": month, "DAY": day} {
		add(name, 1, 1, func(_ *Env, args []value.Value) value.Value {
			t, ok := timeOf(args[0])
			if !ok {
				return value.Value{}
			}
			return value.Int(partOfTime(u, t))
		})
	}
	add("DATETIMEBIN", 2, 4, dateTimeBin)
	add("DATETIMEFROMPARTS", 3, 7, func(_ *Env, args []value.Value) value.Value {
		parts := [7]int64{}
		for i, v := range args {
			var ok bool
			if parts[i], ok = v.Int(); !ok {
				return value.Value{}
			}
		}
		y, m, d := parts[0], parts[1], parts[2]
		if y < 1 || y > 9999 || m < 1 || m > 12 || d < 1 || d > 31 || parts[3] < 0 || parts[3] > 23 || parts[4] < 0 || parts[4] > 59 ||
			parts[5] < 0 || parts[5] > 59 || parts[6] < 0 || parts[6] >= ticksSecond {
			return value.Value{}
		}
		t := time.Date(int(y), time.Month(m), int(d), int(parts[3]), int(parts[4]), int(parts[5]), int(parts[6]*int64(tick)), time.UTC)
		if t.Day() != int(d) {
			return value.Value{}
		}
		return text(t)
	})
	add("DATETIMETOTICKS", 1, 1, func(_ *Env, args []value.Value) value.Value {
		t, ok := timeOf(args[0])
		if !ok {
			return value.Value{}
		}
		return value.Int(ticksOf(t))
	})
	add("DATETIMETOTIMESTAMP", 1, 1, func(_ *Env, args []value.Value) value.Value {
		t, ok := timeOf(args[0])
		if !ok {
			return value.Value{}
		}
		return value.Int(t.UnixMilli())
	})
	counted := func(name string, each int64) {
		add(name, 1, 1, func(_ *Env, args []value.Value) value.Value {
			n, ok := args[0].Int()
			if !ok || n > lastTick/each || n < firstTick/each {
				return value.Value{}
			}
			return text(timeOfTicks(n * each))
		})
	}
	counted("TICKSTODATETIME", 1)
	counted("TIMESTAMPTODATETIME", ticksSecond/1000)
	add("DATETIMEFORMAT", 2, 2, func(e *Env, args []value.Value) value.Value {
		t, ok := timeOf(args[0])
		layout, isText := args[1].Text()
		if !ok || !isText || !e.Grow(10*len(layout)) {
			return value.Value{}
		}
		return value.String(format(t, layout))
	})
}

// dateTimeBin returns the beginning of the bin of some units, counted from an origin, that
// has a time.
func dateTimeBin(_ *Env, args []value.Value) value.Value {
	t, ok := timeOf(args[0])
	u, isUnit := unitOf(args[1])
	size := int64(1)
	if len(args) > 2 {
		var isInt bool
		size, isInt = args[2].Int()
		ok = ok && isInt
	}
	origin := time.Unix(0, 0).UTC()
	if len(args) > 3 {
		var isTime bool
		origin, isTime = timeOf(args[3])
		ok = ok && isTime
	}
	if !ok || !isUnit || size < 1 || size > math.MaxInt32 {
		return value.Value{}
	}
	each := u.ticks()
	switch {
	case u == year || u == month:
		if u == year {
			size *= 12
		}
		n := floorDiv(months(t)-months(origin), size)
		start, ok := later(origin, month, n*size)
		if start.After(t) {
			start, ok = later(origin, month, (n-1)*size)
		}
		if !ok {
			return value.Value{}
		}
		return text(start)
	case u == nanosecond:
		each, size = 1, max(1, size/int64(tick))
	}
	// A bin longer than all years together holds no more than one that is as long.
	bin := each * min(size, (lastTick-firstTick)/each+1)
	return text(timeOfTicks(ticksOf(origin) + floorDiv(ticksOf(t)-ticksOf(origin), bin)*bin))
}

// format writes a time by a layout of the letters y M d H h m s f t, as many as there are
// digits. What stands in quotes or after a backslash stands for itself, and so does the
// rest.
func format(t time.Time, layout string) string {
	var b strings.Builder
	for i := 0; i < len(layout); {
		c := layout[i]
		n := 1
		for i+n < len(layout) && layout[i+n] == c {
			n++
		}
		switch c {
		case 'y':
			if n <= 2 {
				fmt.Fprintf(&b, "%0*d", n, t.Year()%100)
			} else {
				fmt.Fprintf(&b, "%0*d", n, t.Year())
			}
		case 'M':
			named(&b, n, int(t.Month()), t.Month().String())
		case 'd':
			named(&b, n, t.Day(), t.Weekday().String())
		case 'H':
			fmt.Fprintf(&b, "%0*d", min(n, 2), t.Hour())
		case 'h':
			fmt.Fprintf(&b, "%0*d", min(n, 2), (t.Hour()+11)%12+1)
		case 'm':
			fmt.Fprintf(&b, "%0*d", min(n, 2), t.Minute())
		case 's':
			fmt.Fprintf(&b, "%0*d", min(n, 2), t.Second())
		case 'f', 'F':
			digits := fmt.Sprintf("%07d", t.Nanosecond()/int(tick))[:min(n, 7)]
			if c == 'F' {
				digits = strings.TrimRight(digits, "0")
			}
			b.WriteString(digits)
		case 't':
			b.WriteString(map[bool]string{true: "AM", false: "PM"}[t.Hour() < 12][:min(n, 2)])
		case '\'', '"':
			n = 1
			for i+n < len(layout) && layout[i+n] != c {
				b.WriteByte(layout[i+n])
				n++
			}
			n++
		case '\\':
			n = 1
			if i+1 < len(layout) {
				b.WriteByte(layout[i+1])
				n = 2
			}
		default:
			b.WriteString(layout[i : i+n])
		}
		i += n
	}
	return b.String()
}

// named writes a number with up to two letters, the beginning of a name with three, and all of
// it with more.
func named(b *strings.Builder, n, number int, name string) {
	switch {
	case n <= 2:
		fmt.Fprintf(b, "%0*d", n, number)
	case n == 3:
		b.WriteString(name[:3])
	default:
		b.WriteString(name)
	}
}
