package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// interact executes the commands of the standard input, one after the other, so that a command can read the lines after
// it. With a terminal there is a prompt, and Ctrl-C ends the command instead of the shell.
func (in *interpreter) interact(terminal bool) int {
	in.interactive = terminal
	in.status = 0
	var text strings.Builder
	for in.flow != exiting {
		in.prompt(text.Len() > 0)
		line, err := in.inputLine()
		if errors.Is(err, errInterrupted) {
			text.Reset()
			in.status = 128 + int(sigINT)
			continue
		}
		if err != nil && line == "" {
			if text.Len() > 0 {
				in.fail("syntax error: unexpected end of file")
				in.status = 2
			}
			break
		}
		text.WriteString(line)
		text.WriteByte('\n')
		f, perr := in.parse(text.String(), in.name)
		if perr != nil && text.Len() <= in.limits.Script && in.incomplete(text.String()) {
			continue
		}
		text.Reset()
		if perr != nil {
			in.fail("%v", perr)
			if in.status = 2; !terminal {
				break
			}
			continue
		}
		in.interruptible(func() { in.statements(f.Stmts) })
		if in.flow != exiting {
			in.flow = running
		}
	}
	in.flow = running
	return in.end()
}

// incomplete reports whether a text may become a script with more lines.
func (in *interpreter) incomplete(text string) bool {
	if checkNesting(text) != nil {
		return false
	}
	_, err := syntax.NewParser().Parse(strings.NewReader(text), in.name)
	return syntax.IsIncomplete(err)
}

// prompt writes the prompt of an interactive shell.
func (in *interpreter) prompt(continued bool) {
	if !in.interactive {
		return
	}
	switch {
	case continued:
		fmt.Fprint(in.stderr(), "> ")
	case in.variable("PS1").IsSet():
		fmt.Fprint(in.stderr(), strings.NewReplacer(`\w`, in.dir, `\h`, in.get("HOSTNAME"), `\$`, "#").Replace(in.get("PS1")))
	default:
		fmt.Fprint(in.stderr(), in.dir+" # ")
	}
}

// errInterrupted is the error of a line that Ctrl-C has ended.
var errInterrupted = errors.New("interrupted")

// inputLine reads a line of the script.
func (in *interpreter) inputLine() (line string, err error) {
	interrupted := in.interruptible(func() { line, err = in.readLine(in.stdin(), '\n', true, -1) })
	if interrupted {
		return "", errInterrupted
	}
	if err == io.EOF && line != "" {
		err = nil
	}
	return line, err
}

// interruptible calls a function, which Ctrl-C ends if the shell is interactive.
func (in *interpreter) interruptible(call func()) (interrupted bool) {
	terminal := (*terminal)(nil)
	if d := in.files[0]; d != nil {
		terminal = d.terminal
	}
	if !in.interactive || terminal == nil {
		call()
		return false
	}
	ctx, cancel := context.WithCancelCause(in.process.ctx)
	before := in.ctx
	in.ctx = ctx
	depth, calls, loops, quiet, scopeBefore := in.depth, in.calls, in.loops, in.quiet, in.scope
	terminal.setInterrupt(func() { cancel(killed(sigINT)) })
	defer func() {
		terminal.setInterrupt(nil)
		cancel(nil)
		in.ctx = before
		if r := recover(); r != nil {
			_, unwinds := r.(unwind)
			limit, limited := r.(*limitError)
			if !unwinds && !limited || in.process.ctx.Err() != nil {
				panic(r)
			}
			if limited {
				in.message("%v", limit)
				in.process.waited()
			}
			in.depth, in.calls, in.loops, in.quiet, in.scope, in.trapping = depth, calls, loops, quiet, scopeBefore, false
			in.status, interrupted = 128+int(sigINT), true
		}
	}()
	call()
	return false
}
