package shell

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// getopts takes the next option from the parameters.
func getopts(in *interpreter, args []string) int {
	if len(args) < 3 {
		return in.usage("getopts: usage: getopts optstring var [arg]")
	}
	opts, name, params := args[1], args[2], in.params
	if len(args) > 3 {
		params = args[3:]
	}
	index, _ := strconv.Atoi(in.get("OPTIND"))
	if index < 1 {
		index = 1
	}
	if index == 1 && in.nextOption > 0 && (len(params) == 0 || in.nextOption >= len(params[0])) {
		in.nextOption = 0
	}
	end := func() int {
		in.nextOption = 0
		in.setText("OPTIND", strconv.Itoa(index))
		in.setText(name, "?")
		return 1
	}
	if index > len(params) {
		return end()
	}
	arg := params[index-1]
	if in.nextOption == 0 {
		if arg == "--" {
			index++
			return end()
		}
		if len(arg) < 2 || arg[0] != '-' {
			return end()
		}
		in.nextOption = 1
	}
	if in.nextOption >= len(arg) {
		return end()
	}
	letter := string(arg[in.nextOption])
	in.nextOption++
	value, status := letter, 0
	at := strings.Index(opts, letter)
	silent := strings.HasPrefix(opts, ":")
	in.setText("OPTARG", "")
	switch {
	case at < 0 || letter == ":":
		value = "?"
		if silent {
			in.setText("OPTARG", letter)
		} else {
			in.fail("illegal option -%s", letter)
		}
	case at+1 < len(opts) && opts[at+1] == ':':
		switch {
		case in.nextOption < len(arg):
			in.setText("OPTARG", arg[in.nextOption:])
		case index < len(params):
			index++
			in.setText("OPTARG", params[index-1])
		case silent:
			value = ":"
			in.setText("OPTARG", letter)
		default:
			value = "?"
			in.fail("no arg for -%s option", letter)
		}
		in.nextOption = len(arg)
	}
	if in.nextOption >= len(arg) {
		index++
		in.nextOption = 0
	}
	in.setText("OPTIND", strconv.Itoa(index))
	in.setText(name, value)
	return status
}

// read reads a line of the standard input into variables.
func read(in *interpreter, args []string) int {
	o, err := parseOptions(args, "rsap:d:n:t:u:")
	if err != nil {
		return in.usage("read: %v", err)
	}
	from := in.files[0]
	if u, err := strconv.Atoi(o.get('u')); err == nil {
		from = in.files[u]
	}
	if o.has('p') && from != nil && from.terminal != nil {
		fmt.Fprint(in.stderr(), o.get('p'))
	}
	delimiter := byte('\n')
	if o.has('d') {
		delimiter = (o.get('d') + "\x00")[0]
	}
	limit := -1
	if o.has('n') {
		limit, _ = strconv.Atoi(o.get('n'))
	}
	reader := in.reader(from)
	if o.has('t') {
		d, err := seconds(o.get('t'))
		if err != nil {
			return in.usage("read: invalid timeout %q", o.get('t'))
		}
		reader = in.timedReader(from, d)
	}
	line, err := in.readLine(reader, delimiter, o.has('r'), limit)
	status := 0
	if err != nil {
		if status = 1; errors.Is(err, errTimeout) {
			status = 128 + 14
		}
	}
	names := o.args
	if o.has('a') && len(names) > 0 {
		list := in.split(line, -1, o.has('r'))
		if err := in.assign(names[0], expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, list...)}); err != nil {
			status = in.fail("read: %v", err)
		}
		return status
	}
	if len(names) == 0 {
		in.setText("REPLY", line)
		return status
	}
	values := in.split(line, len(names), o.has('r'))
	for i, name := range names {
		if !syntax.ValidName(name) {
			return in.usage("read: %s: bad variable name", name)
		}
		value := ""
		if i < len(values) {
			value = values[i]
		}
		in.status = 0
		if in.setText(name, value); in.status != 0 {
			status = in.status
		}
	}
	return status
}

// split splits a line at the characters of IFS into at most n fields, or any number if n is negative. A backslash quotes
// the next character, unless raw.
func (in *interpreter) split(line string, n int, raw bool) (fields []string) {
	ifs := " \t\n"
	if v := in.variable("IFS"); v.IsSet() {
		ifs = v.String()
	}
	is := func(b byte) bool { return strings.IndexByte(ifs, b) >= 0 }
	space := func(b byte) bool { return is(b) && (b == ' ' || b == '\t' || b == '\n') }
	i := 0
	for i < len(line) && space(line[i]) {
		i++
	}
	for i < len(line) {
		lastField := n > 0 && len(fields) == n-1
		var field []byte
		end := 0 // of the field, without white space that is not quoted
		for i < len(line) && (lastField || !is(line[i])) {
			if line[i] == '\\' && !raw {
				if i++; i == len(line) {
					break
				}
				field = append(field, line[i])
				end = len(field)
			} else if field = append(field, line[i]); !space(line[i]) {
				end = len(field)
			}
			i++
		}
		if lastField {
			field = field[:end]
			if k := len(field); k > 0 && is(field[k-1]) && !space(field[k-1]) && !slices.ContainsFunc(field[:k-1], is) {
				field = field[:k-1] // one separator at the end
			}
		}
		fields = append(fields, string(field))
		for i < len(line) && space(line[i]) {
			i++
		}
		if i < len(line) && is(line[i]) {
			i++
			for i < len(line) && space(line[i]) {
				i++
			}
		}
	}
	return fields
}

// readLine reads to the delimiter, byte by byte, so that the rest is left for others.
func (in *interpreter) readLine(r io.Reader, delimiter byte, raw bool, limit int) (string, error) {
	var line []byte
	var b [1]byte
	for limit < 0 || len(line) < limit {
		n, err := r.Read(b[:])
		if n == 0 && err == nil {
			continue
		}
		if n == 0 {
			return string(line), err
		}
		if b[0] == delimiter {
			if raw || !continues(line) {
				break
			}
			line = line[:len(line)-1]
			continue
		}
		if line = append(line, b[0]); len(line) > in.limits.Memory {
			panic(&limitError{"read: the line has more than " + strconv.Itoa(in.limits.Memory) + " bytes"})
		}
	}
	return string(line), nil
}

// continues reports whether a line ends with a backslash that is not escaped.
func continues(line []byte) bool {
	n := 0
	for n < len(line) && line[len(line)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
