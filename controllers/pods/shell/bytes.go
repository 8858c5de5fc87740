package shell

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
)

// characters returns the characters of a set of tr.
func characters(set string) ([]byte, error) {
	set, _ = unescape(set, false)
	var all []byte
	for set != "" {
		if name, ok := strings.CutPrefix(set, "[:"); ok {
			if end := strings.Index(name, ":]"); end >= 0 {
				is := class(name[:end])
				if is == nil {
					return nil, fmt.Errorf("invalid character class '%s'", name[:end])
				}
				for b := range 256 {
					if is(byte(b)) {
						all = append(all, byte(b))
					}
				}
				set = name[end+2:]
				continue
			}
		}
		if len(set) > 2 && set[1] == '-' {
			for b := int(set[0]); b <= int(set[2]); b++ {
				all = append(all, byte(b))
			}
			set = set[3:]
			continue
		}
		all = append(all, set[0])
		set = set[1:]
	}
	return all, nil
}

// class returns the function of a character class, or nil.
func class(name string) func(byte) bool {
	in := func(from, to byte) func(byte) bool { return func(b byte) bool { return b >= from && b <= to } }
	or := func(list ...func(byte) bool) func(byte) bool {
		return func(b byte) bool { return slices.ContainsFunc(list, func(f func(byte) bool) bool { return f(b) }) }
	}
	lower, upper, digit := in('a', 'z'), in('A', 'Z'), in('0', '9')
	switch name {
	case "lower":
		return lower
	case "upper":
		return upper
	case "digit":
		return digit
	case "alpha":
		return or(lower, upper)
	case "alnum":
		return or(lower, upper, digit)
	case "space":
		return or(in('\t', '\r'), in(' ', ' '))
	case "blank":
		return or(in('\t', '\t'), in(' ', ' '))
	case "punct":
		return or(in('!', '/'), in(':', '@'), in('[', '`'), in('{', '~'))
	case "print":
		return in(' ', '~')
	case "graph":
		return in('!', '~')
	case "cntrl":
		return or(in(0, 31), in(127, 127))
	case "xdigit":
		return or(digit, in('a', 'f'), in('A', 'F'))
	}
	return nil
}

// tr replaces, deletes and squeezes characters.
func tr(c *invocation) int {
	o, ok := c.options("+dscC delete=d squeeze-repeats=s complement=c")
	if !ok {
		return 1
	}
	if len(o.args) == 0 || len(o.args) > 2 {
		return c.errorf("missing operand")
	}
	from, err := characters(o.args[0])
	if err != nil {
		return c.errorf("%v", err)
	}
	if o.has('c') || o.has('C') {
		var rest []byte
		for b := range 256 {
			if !slices.Contains(from, byte(b)) {
				rest = append(rest, byte(b))
			}
		}
		from = rest
	}
	var to []byte
	if len(o.args) == 2 {
		if to, err = characters(o.args[1]); err != nil {
			return c.errorf("%v", err)
		}
	} else if !o.has('d') && !o.has('s') {
		return c.errorf("missing operand")
	}
	var table [256]byte
	var deleted, squeezed [256]bool
	for b := range table {
		table[b] = byte(b)
	}
	for i, b := range from {
		switch {
		case o.has('d'):
			deleted[b] = true
		case len(to) > 0:
			table[b] = to[min(i, len(to)-1)]
		}
	}
	if o.has('s') {
		set := from
		if len(to) > 0 {
			set = to
		}
		for _, b := range set {
			squeezed[b] = true
		}
	}
	last := -1
	buffer := make([]byte, 32<<10)
	r := c.stdin()
	for {
		n, err := r.Read(buffer)
		out := buffer[:0:0]
		for _, b := range buffer[:n] {
			if deleted[b] {
				continue
			}
			b = table[b]
			if squeezed[b] && last == int(b) {
				continue
			}
			last = int(b)
			out = append(out, b)
		}
		_, _ = c.out.Write(out)
		if err != nil || c.out.err != nil {
			return oneIf(!errors.Is(err, io.EOF))
		}
	}
}

// base64Program encodes or decodes files.
func base64Program(c *invocation) int {
	o, ok := c.options("dw:i decode=d wrap=w")
	if !ok {
		return 1
	}
	wrap := 76
	if o.has('w') {
		var err error
		if wrap, err = strconv.Atoi(o.get('w')); err != nil || wrap < 0 {
			return c.errorf("invalid number '%s'", o.get('w'))
		}
	}
	return c.inputs(o.args, func(_ string, r io.Reader) error {
		b, err := c.readAll(r)
		if err != nil {
			return err
		}
		if o.has('d') {
			decoded, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "").Replace(string(b)))
			_, _ = c.out.Write(decoded)
			if err != nil {
				return errors.New("invalid input")
			}
			return nil
		}
		text := base64.StdEncoding.EncodeToString(b)
		for wrap > 0 && len(text) > wrap {
			c.printf("%s\n", text[:wrap])
			text = text[wrap:]
		}
		if text != "" {
			c.printf("%s", text)
			if wrap > 0 {
				c.printf("\n")
			}
		}
		return nil
	})
}

// sum prints the digests of files.
func sum(c *invocation) int {
	newHash := map[string]func() hash.Hash{"md5sum": md5.New, "sha1sum": sha1.New, "sha256sum": sha256.New, "sha512sum": sha512.New}[c.args[0]]
	o, ok := c.options("b")
	if !ok {
		return 1
	}
	return c.inputs(o.args, func(name string, r io.Reader) error {
		h := newHash()
		if _, err := io.Copy(h, r); err != nil {
			return err
		}
		c.printf("%x  %s\n", h.Sum(nil), name)
		return nil
	})
}

// two reads the two files of cmp and diff.
func (c *invocation) two(names []string) (a, b []byte, ok bool) {
	if len(names) != 2 {
		c.errorf("two files are needed")
		return nil, nil, false
	}
	var texts [][]byte
	if c.inputs(names, func(_ string, r io.Reader) error {
		text, err := c.readAll(r)
		texts = append(texts, text)
		return err
	}) != 0 {
		return nil, nil, false
	}
	return texts[0], texts[1], true
}

func cmpProgram(c *invocation) int {
	o, ok := c.options("sl")
	if !ok {
		return 2
	}
	a, b, ok := c.two(o.args)
	if !ok {
		return 2
	}
	if bytes.Equal(a, b) {
		return 0
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if !o.has('s') {
		c.printf("%s %s differ: byte %d, line %d\n", o.args[0], o.args[1], n+1, bytes.Count(a[:n], []byte("\n"))+1)
	}
	return 1
}

// hexdump prints bytes as hexdump -C does.
func hexdump(c *invocation) int {
	o, ok := c.options("C")
	if !ok {
		return 1
	}
	if !o.has('C') {
		return c.errorf("only -C is supported")
	}
	var all []byte
	code := c.inputs(o.args, func(_ string, r io.Reader) error {
		b, err := c.readAll(r)
		c.limitInput("hexdump", len(all)+len(b))
		all = append(all, b...)
		return err
	})
	for at := 0; at < len(all); at += 16 {
		line := all[at:min(at+16, len(all))]
		text := make([]byte, len(line))
		c.printf("%08x ", at)
		for i := range 16 {
			if i == 8 {
				c.printf(" ")
			}
			if i >= len(line) {
				c.printf("   ")
				continue
			}
			c.printf(" %02x", line[i])
			if text[i] = line[i]; line[i] < ' ' || line[i] > '~' {
				text[i] = '.'
			}
		}
		c.printf("  |%s|\n", text)
	}
	if len(all) > 0 {
		c.printf("%08x\n", len(all))
	}
	return code
}

// diff reports whether two files differ. It prints the differing lines in one block.
func diff(c *invocation) int {
	o, ok := c.options("qub brief=q unified=u")
	if !ok {
		return 2
	}
	a, b, ok := c.two(o.args)
	switch {
	case !ok:
		return 2
	case bytes.Equal(a, b):
		return 0
	case o.has('q'):
		c.printf("Files %s and %s differ\n", o.args[0], o.args[1])
		return 1
	}
	x, y := strings.Split(strings.TrimSuffix(string(a), "\n"), "\n"), strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	from := 0
	for from < len(x) && from < len(y) && x[from] == y[from] {
		from++
	}
	end := 0
	for end < len(x)-from && end < len(y)-from && x[len(x)-1-end] == y[len(y)-1-end] {
		end++
	}
	c.printf("--- %s\n+++ %s\n@@ -%d,%d +%d,%d @@\n", o.args[0], o.args[1], from+1, len(x)-from-end, from+1, len(y)-from-end)
	for _, l := range x[from : len(x)-end] {
		c.printf("-%s\n", l)
	}
	for _, l := range y[from : len(y)-end] {
		c.printf("+%s\n", l)
	}
	return 1
}
