package shell

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// arguments are the parsed options and the other arguments of a program.
type arguments struct {
	options []option
	args    []string
}

// option is an option of a program with its value.
type option struct {
	name  byte
	value string
}

func (a *arguments) has(name byte) bool {
	for _, o := range a.options {
		if o.name == name {
			return true
		}
	}
	return false
}

// get returns the last value of an option, or "".
func (a *arguments) get(name byte) (value string) {
	for _, o := range a.options {
		if o.name == name {
			value = o.value
		}
	}
	return value
}

// all returns the values of an option.
func (a *arguments) all(name byte) (values []string) {
	for _, o := range a.options {
		if o.name == name {
			values = append(values, o.value)
		}
	}
	return values
}

// parseOptions parses the options of a program. A letter in known is an option, with a value if a colon follows. The value is
// optional after two colons, and in the same argument. Long options are written after the letters as " long=letter". Options may follow
// other arguments, unless known begins with +.
func parseOptions(args []string, known string) (*arguments, error) {
	known, rest, _ := strings.Cut(known, " ")
	known, ordered := strings.CutPrefix(known, "+")
	long := map[string]byte{}
	for word := range strings.FieldsSeq(rest) {
		name, letter, _ := strings.Cut(word, "=")
		long[name] = letter[0]
	}
	takes := func(name byte) (is, value, optional bool) {
		is = name != ':' && strings.IndexByte(known, name) >= 0
		_, after, _ := strings.Cut(known, string(name))
		return is, strings.HasPrefix(after, ":"), strings.HasPrefix(after, "::")
	}
	a := &arguments{}
	list := args[1:]
	for len(list) > 0 {
		arg := list[0]
		list = list[1:]
		if arg == "--" {
			a.args = append(a.args, list...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			a.args = append(a.args, arg)
			if ordered {
				a.args = append(a.args, list...)
				break
			}
			continue
		}
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			name, value, has := strings.Cut(name, "=")
			letter, ok := long[name]
			if !ok {
				return nil, &optionError{option: "--" + name}
			}
			if _, needs, optional := takes(letter); needs && !optional && !has {
				if len(list) == 0 {
					return nil, &optionError{"--" + name, true}
				}
				value, list = list[0], list[1:]
			}
			a.options = append(a.options, option{letter, value})
			continue
		}
		for i := 1; i < len(arg); i++ {
			is, needs, optional := takes(arg[i])
			if !is {
				return nil, &optionError{option: "-" + arg[i:i+1]}
			}
			o := option{name: arg[i]}
			if needs {
				switch {
				case i+1 < len(arg):
					o.value = arg[i+1:]
				case optional:
				case len(list) > 0:
					o.value, list = list[0], list[1:]
				default:
					return nil, &optionError{"-" + arg[i:i+1], true}
				}
				i = len(arg)
			}
			a.options = append(a.options, o)
		}
	}
	return a, nil
}

// optionError is the error of an option that a program does not know, or that has no value. Its text is the one of musl.
type optionError struct {
	option     string // with its hyphens
	lacksValue bool
}

func (e *optionError) Error() string {
	letter := strings.TrimPrefix(e.option, "-")
	switch {
	case strings.HasPrefix(letter, "-") && e.lacksValue:
		return "option '" + e.option + "' requires an argument"
	case strings.HasPrefix(letter, "-"):
		return "unrecognized option '" + e.option + "'"
	case e.lacksValue:
		return "option requires an argument: " + letter
	}
	return "unrecognized option: " + letter
}

// options parses the options of a program. It writes the error, for which the program ends with the code 1.
func (c *invocation) options(known string) (a *arguments, ok bool) {
	a, err := parseOptions(c.args, known)
	if err != nil {
		c.errorf("%v", err)
		return nil, false
	}
	return a, true
}

// seconds parses a duration as sleep does: a decimal number with the suffix s, m, h or d.
func seconds(s string) (time.Duration, error) {
	unit := time.Second
	number := s
	if s != "" {
		switch s[len(s)-1] {
		case 's':
			number = s[:len(s)-1]
		case 'm':
			unit, number = time.Minute, s[:len(s)-1]
		case 'h':
			unit, number = time.Hour, s[:len(s)-1]
		case 'd':
			unit, number = 24*time.Hour, s[:len(s)-1]
		}
	}
	if number == "infinity" || number == "inf" {
		return 1<<63 - 1, nil
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n < 0 || n != n {
		return 0, fmt.Errorf("invalid number '%s'", s)
	}
	if d := n * float64(unit); d < float64(1<<63-1) {
		return time.Duration(d), nil
	}
	return 1<<63 - 1, nil
}
