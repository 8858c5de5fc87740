package shell

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

func tac(c *invocation) int {
	return c.inputs(c.args[1:], func(_ string, r io.Reader) error {
		b, err := c.readAll(r)
		for _, l := range slices.Backward(bytes.SplitAfter(b, []byte("\n"))) {
			_, _ = c.out.Write(l)
		}
		return err
	})
}

func rev(c *invocation) int {
	return c.inputs(c.args[1:], func(_ string, r io.Reader) error {
		return c.lines(r, '\n', func(line []byte, _ bool) error {
			runes := []rune(string(line))
			slices.Reverse(runes)
			c.printf("%s\n", string(runes))
			return c.out.err
		})
	})
}

func nl(c *invocation) int {
	n := 0
	return c.inputs(c.args[1:], func(_ string, r io.Reader) error {
		return c.lines(r, '\n', func(line []byte, _ bool) error {
			if len(line) == 0 {
				c.printf("\n")
				return nil
			}
			n++
			c.printf("%6d\t%s\n", n, line)
			return c.out.err
		})
	})
}

// uniq drops lines that equal the line before.
func uniq(c *invocation) int {
	o, ok := c.options("cdui count=c repeated=d unique=u ignore-case=i")
	if !ok {
		return 1
	}
	last, n := "", 0
	flush := func() {
		if n == 0 || o.has('d') && n == 1 || o.has('u') && n > 1 {
			return
		}
		if o.has('c') {
			c.printf("%7d ", n)
		}
		c.printf("%s\n", last)
	}
	code := c.inputs(o.args[:min(1, len(o.args))], func(_ string, r io.Reader) error {
		return c.lines(r, '\n', func(line []byte, _ bool) error {
			same := n > 0 && (string(line) == last || o.has('i') && strings.EqualFold(string(line), last))
			if !same {
				flush()
				last, n = string(line), 0
			}
			n++
			return c.out.err
		})
	})
	flush()
	return code
}

// ranges parses a list of cut.
func ranges(list string) (all [][2]int, err error) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		r := [2]int{1, 1 << 30}
		if from != "" {
			if r[0], err = strconv.Atoi(from); err != nil || r[0] < 1 {
				return nil, fmt.Errorf("invalid range '%s'", part)
			}
		}
		if to != "" {
			if r[1], err = strconv.Atoi(to); err != nil {
				return nil, fmt.Errorf("invalid range '%s'", part)
			}
		}
		if !isRange {
			r[1] = r[0]
		}
		if part == "" || part == "-" {
			return nil, fmt.Errorf("invalid range '%s'", part)
		}
		all = append(all, r)
	}
	return all, nil
}

// cut prints fields, characters or bytes of lines.
func cut(c *invocation) int {
	o, ok := c.options("d:f:c:b:sn delimiter=d fields=f characters=c bytes=b only-delimited=s")
	if !ok {
		return 1
	}
	list := o.get('f') + o.get('c') + o.get('b')
	all, err := ranges(list)
	if err != nil || list == "" {
		return c.errorf("expected a list of bytes, characters, or fields")
	}
	delimiter := "\t"
	if o.has('d') {
		delimiter = o.get('d')
	}
	selected := func(i int) bool {
		return slices.ContainsFunc(all, func(r [2]int) bool { return i >= r[0] && i <= r[1] })
	}
	return c.inputs(o.args, func(_ string, r io.Reader) error {
		return c.lines(r, '\n', func(line []byte, _ bool) error {
			if o.has('f') {
				if !bytes.Contains(line, []byte(delimiter)) {
					if !o.has('s') {
						c.printf("%s\n", line)
					}
					return c.out.err
				}
				var kept []string
				for i, f := range strings.Split(string(line), delimiter) {
					if selected(i + 1) {
						kept = append(kept, f)
					}
				}
				c.printf("%s\n", strings.Join(kept, delimiter))
				return c.out.err
			}
			var kept []byte
			n := 0
			for _, b := range line {
				if o.has('b') || b&0xc0 != 0x80 {
					n++
				}
				if selected(n) {
					kept = append(kept, b)
				}
			}
			c.printf("%s\n", kept)
			return c.out.err
		})
	})
}
