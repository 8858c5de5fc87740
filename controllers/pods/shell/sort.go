package shell

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// sortProgram sorts lines by keys.
func sortProgram(c *invocation) int {
	o, ok := c.options("rnuk:t:fbhVsco:z reverse=r numeric-sort=n unique=u key=k field-separator=t output=o")
	if !ok {
		return 2
	}
	s, err := newSorting(o)
	if err != nil {
		c.errorf("%v", err)
		return 2
	}
	delimiter := byte('\n')
	if o.has('z') {
		delimiter = 0
	}
	var lines []string
	size := 0
	code := c.inputs(o.args, func(_ string, r io.Reader) error {
		return c.lines(r, delimiter, func(line []byte, _ bool) error {
			size += len(line) + 16
			c.limitInput("sort", size)
			lines = append(lines, string(line))
			return nil
		})
	})
	if o.has('c') {
		if !slices.IsSortedFunc(lines, s.compare) {
			return c.errorf("the input is not sorted")
		}
		return code
	}
	slices.SortStableFunc(lines, s.compare)
	if s.unique {
		lines = slices.CompactFunc(lines, func(a, b string) bool { return s.compare(a, b) == 0 })
	}
	out := c.out
	if o.has('o') {
		w, closer, err := c.create(o.get('o'), syscall.O_TRUNC)
		if err != nil {
			return c.fileError(o.get('o'), err)
		}
		defer closer()
		out = w
	}
	for _, l := range lines {
		fmt.Fprintf(out, "%s%c", l, delimiter)
	}
	return code
}

// sorting is the order of sort.
type sorting struct {
	keys           []sortKey
	separator      string // of fields; if empty, a field begins with the blanks before it
	reverse        bool   // of lines with equal keys
	stable, unique bool
}

// sortKey is a part of a line, and how it is compared.
type sortKey struct {
	from, to keyPosition
	flags    string // r, n, f, h or V
}

// keyPosition is a place in a line: a field, and a character in the field. Both begin at 1. As the end of a key, the field 0
// is the end of the line, and the character 0 the end of the field.
type keyPosition struct {
	field, char int
	skip        bool // blanks at the beginning of the field do not count
}

// newSorting returns the order for the options of sort.
func newSorting(o *arguments) (*sorting, error) {
	s := &sorting{separator: o.get('t'), reverse: o.has('r'), stable: o.has('s') || o.has('u'), unique: o.has('u')}
	if s.separator == `\0` {
		s.separator = "\x00"
	}
	if len(s.separator) > 1 {
		return nil, fmt.Errorf("multi-character tab '%s'", s.separator)
	}
	flags := ""
	for _, f := range "rnfhV" {
		if o.has(byte(f)) {
			flags += string(f)
		}
	}
	for _, text := range o.all('k') {
		k, err := parseSortKey(text)
		if err != nil {
			return nil, fmt.Errorf("invalid key '%s'", text)
		}
		if k.flags == "" && !k.from.skip && !k.to.skip {
			k.flags, k.from.skip, k.to.skip = flags, o.has('b'), o.has('b')
		}
		s.keys = append(s.keys, k)
	}
	if len(s.keys) == 0 {
		s.keys = []sortKey{{from: keyPosition{1, 1, o.has('b')}, flags: flags}}
	}
	return s, nil
}

// parseSortKey parses a key, such as 2,3.4nr.
func parseSortKey(text string) (k sortKey, err error) {
	from, to, ended := strings.Cut(text, ",")
	if k.from, err = k.position(from, 1); err != nil || k.from.char == 0 {
		return k, cmp.Or(err, errSortKey)
	}
	if ended {
		k.to, err = k.position(to, 0)
	}
	return k, err
}

var errSortKey = errors.New("invalid key")

// position parses a position with the letters behind it, and adds these to the flags of the key.
func (k *sortKey) position(text string, char int) (p keyPosition, err error) {
	numbers := strings.TrimRight(text, "rnfbhV")
	for _, f := range text[len(numbers):] {
		if f == 'b' {
			p.skip = true
		} else {
			k.flags += string(f)
		}
	}
	field, within, has := strings.Cut(numbers, ".")
	if p.field, err = strconv.Atoi(field); err != nil || p.field < 1 {
		return p, errSortKey
	}
	p.char = char
	if has {
		if p.char, err = strconv.Atoi(within); err != nil || p.char < 0 {
			return p, errSortKey
		}
	}
	return p, nil
}

// compare compares two lines.
func (s *sorting) compare(a, b string) int {
	for i := range s.keys {
		k := &s.keys[i]
		if n := compareBy(s.part(a, k), s.part(b, k), k.flags); n != 0 {
			return n
		}
	}
	switch {
	case s.stable:
		return 0
	case s.reverse:
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}

// part returns the part of a line that a key selects.
func (s *sorting) part(line string, k *sortKey) string {
	from := s.place(line, k.from)
	to := len(line)
	switch {
	case k.to.field == 0:
	case k.to.char > 0:
		to = s.place(line, keyPosition{k.to.field, k.to.char + 1, k.to.skip})
	default:
		to = s.fieldEnd(line, k.to.field)
	}
	if to < from {
		return ""
	}
	return line[from:to]
}

// place returns the index of a position in a line, or its length.
func (s *sorting) place(line string, p keyPosition) int {
	i := 0
	if p.field > 1 {
		i = s.fieldEnd(line, p.field-1)
		if s.separator != "" {
			i = min(i+1, len(line))
		}
	}
	if p.skip {
		i = skipBlanks(line, i)
	}
	return min(i+p.char-1, len(line))
}

// fieldEnd returns the index of the end of a field, or the length of the line.
func (s *sorting) fieldEnd(line string, field int) int {
	i := 0
	for n := range field {
		if s.separator == "" {
			i = skipBlanks(line, i)
			for i < len(line) && line[i] != ' ' && line[i] != '\t' {
				i++
			}
			continue
		}
		if n > 0 {
			i++ // the separator
		}
		end := strings.Index(line[min(i, len(line)):], s.separator)
		if end < 0 {
			return len(line)
		}
		i += end
	}
	return i
}

// skipBlanks returns the index of the first character from i on that is no blank.
func skipBlanks(line string, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	return i
}

// compareBy compares two parts of lines by the flags of a key.
func compareBy(a, b, flags string) (n int) {
	has := func(f byte) bool { return strings.IndexByte(flags, f) >= 0 }
	if has('f') {
		a, b = strings.ToUpper(a), strings.ToUpper(b)
	}
	switch {
	case has('n') || has('h'):
		n = cmp.Compare(leadingNumber(a, has('h')), leadingNumber(b, has('h')))
	case has('V'):
		n = compareVersions(a, b)
	default:
		n = strings.Compare(a, b)
	}
	if has('r') {
		n = -n
	}
	return n
}

// leadingNumber returns the number at the beginning of a text, or 0. With units, the suffixes K, M and so on count.
func leadingNumber(s string, units bool) float64 {
	s = s[skipBlanks(s, 0):]
	end, point := 0, false
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.' && !point || end == 0 && s[end] == '-') {
		point = point || s[end] == '.'
		end++
	}
	n, _ := strconv.ParseFloat(s[:end], 64)
	if units && end < len(s) {
		for range strings.IndexByte("KMGTPE", s[end]) + 1 {
			n *= 1024
		}
	}
	return n
}

// compareVersions compares two texts, in which numbers count by their values.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		if unicode.IsDigit(rune(a[0])) && unicode.IsDigit(rune(b[0])) {
			i, j := digits(a), digits(b)
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if n := strings.Compare(x, y); n != 0 {
				return n
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
