package shell

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// errTimedOut is the cause for which timeout ends a command.
var errTimedOut = errors.New("timed out")

// env executes a command in another environment, or prints the environment.
func env(c *invocation) int {
	o, ok := c.options("+iu:0 ignore-environment=i unset=u null=0")
	if !ok {
		return 125
	}
	c.in.nest()
	sub := c.in.fork(c.in.process, c.in.ctx)
	defer sub.files.closeAll()
	if o.has('i') {
		for name := range sub.scope.variables {
			if v := sub.scope.variables[name]; v.Exported {
				delete(sub.scope.variables, name)
			}
		}
	}
	for _, name := range o.all('u') {
		delete(sub.scope.find(name).variables, name)
	}
	args := o.args
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, value, _ := strings.Cut(args[0], "=")
		sub.setText(name, value)
		s := sub.scope.find(name)
		v := s.variables[name]
		v.Exported = true
		s.variables[name] = v
		args = args[1:]
	}
	if len(args) > 0 {
		return sub.program(args, false)
	}
	end := "\n"
	if o.has('0') {
		end = "\x00"
	}
	for _, e := range sub.exported() {
		c.printf("%s%s", e, end)
	}
	return 0
}

// timeout executes a command for a limited time.
func timeout(c *invocation) int {
	o, ok := c.options("+s:k:pv signal=s kill-after=k preserve-status=p foreground=v verbose=v")
	if !ok {
		return 125
	}
	if len(o.args) < 2 {
		c.errorf("missing operand")
		return 125
	}
	d, err := seconds(o.args[0])
	if err != nil {
		c.errorf("%v", err)
		return 125
	}
	code := 124
	if o.has('s') {
		s, ok := signalOf(o.get('s'))
		if !ok {
			c.errorf("%s: invalid signal", o.get('s'))
			return 125
		}
		if s == sigKILL {
			code = 128 + int(sigKILL)
		}
	}
	ctx, cancel := context.WithTimeoutCause(c.in.ctx, d, errTimedOut)
	if d == 0 {
		ctx, cancel = context.WithCancel(c.in.ctx)
	}
	defer cancel()
	return c.under(ctx, code, func(sub *interpreter) int { return sub.program(o.args[1:], false) })
}

// under executes a command with a context. The exit code is code if the context ends because of the timeout.
func (c *invocation) under(ctx context.Context, code int, run func(sub *interpreter) int) (result int) {
	c.in.nest()
	sub := c.in.fork(c.in.process, ctx)
	defer sub.files.closeAll()
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(unwind); !ok || c.in.ctx.Err() != nil || !errors.Is(context.Cause(ctx), errTimedOut) {
				panic(r)
			}
			result = code
		}
	}()
	return run(sub)
}

// runRest executes the command in the arguments after the options.
func runRest(c *invocation) int {
	rest := c.args[1:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		if c.args[0] == "nice" && rest[0] == "-n" && len(rest) > 1 {
			rest = rest[1:]
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return c.errorf("missing operand")
	}
	return c.run(rest)
}

// xargs executes a command with arguments from the standard input.
func xargs(c *invocation) int {
	o, ok := c.options("+n:I:0rt:P:L:d: null=0 no-run-if-empty=r max-args=n max-procs=P")
	if !ok {
		return 1
	}
	args := o.args
	if len(args) == 0 {
		args = []string{"echo"}
	}
	input, err := c.readAll(c.stdin())
	if err != nil {
		return c.fileError("-", err)
	}
	var items []string
	switch {
	case o.has('0'):
		items = strings.Split(strings.TrimSuffix(string(input), "\x00"), "\x00")
	case o.has('d'):
		items = strings.Split(strings.TrimSuffix(string(input), o.get('d')), o.get('d'))
	case o.has('I') || o.has('L'):
		for line := range strings.Lines(string(input)) {
			if line = strings.TrimSpace(line); line != "" {
				items = append(items, line)
			}
		}
	default:
		items = splitQuoted(string(input))
	}
	if len(input) == 0 {
		items = nil
	}
	code := 0
	run := func(args []string) {
		c.in.step(1)
		switch status := c.run(args); {
		case status == 127 || status == 126:
			code = status
		case status != 0:
			code = 123
		}
	}
	if o.has('I') {
		for _, item := range items {
			var list []string
			for _, a := range args {
				list = append(list, strings.ReplaceAll(a, o.get('I'), item))
			}
			run(list)
		}
		return code
	}
	n := len(items)
	for _, flag := range []byte("nL") {
		if o.has(flag) {
			if n, err = strconv.Atoi(o.get(flag)); err != nil || n < 1 {
				return c.errorf("invalid number '%s'", o.get(flag))
			}
		}
	}
	if len(items) == 0 && !o.has('r') {
		run(args)
	}
	for len(items) > 0 {
		k := min(n, len(items))
		run(append(slices.Clone(args), items[:k]...))
		items = items[k:]
	}
	return code
}

// splitQuoted splits a text at white space outside of quotes.
func splitQuoted(s string) (words []string) {
	var word []byte
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		b := s[i]
		switch {
		case quote != 0:
			if b == quote {
				quote = 0
			} else {
				word = append(word, b)
			}
		case b == '\'' || b == '"':
			quote, in = b, true
		case b == '\\' && i+1 < len(s):
			i++
			word, in = append(word, s[i]), true
		case b == ' ' || b == '\t' || b == '\n':
			if in {
				words = append(words, string(word))
			}
			word, in = nil, false
		default:
			word, in = append(word, b), true
		}
	}
	if in {
		words = append(words, string(word))
	}
	return words
}
