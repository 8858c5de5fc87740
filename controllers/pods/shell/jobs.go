package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errTimeout is the error of a read that took too long.
var errTimeout = errors.New("timeout")

// timedReader reads until a time has passed.
func (in *interpreter) timedReader(d *description, limit time.Duration) io.Reader {
	deadline := time.Now().Add(limit)
	return readerFunc(func(b []byte) (int, error) {
		if d == nil {
			return 0, io.EOF
		}
		in.step(1)
		ctx, cancel := context.WithDeadlineCause(in.ctx, deadline, errTimeout)
		defer cancel()
		n, err := d.read(ctx, b)
		in.step(0)
		return n, err
	})
}

// readerFunc is a function that reads.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// job returns the process of %N or of a number.
func (in *interpreter) job(arg string) *process {
	if n, ok := strings.CutPrefix(arg, "%"); ok {
		i, err := strconv.Atoi(n)
		if (n == "%" || n == "+" || n == "") && len(in.background) > 0 {
			return in.background[len(in.background)-1]
		}
		if err != nil || i < 1 || i > len(in.background) {
			return nil
		}
		return in.background[i-1]
	}
	id, _ := strconv.Atoi(arg)
	for _, p := range in.background {
		if p.id == id {
			return p
		}
	}
	return nil
}

// wait waits for processes in the background.
func wait(in *interpreter, args []string) int {
	if len(args) == 2 && args[1] == "-n" {
		return in.waitAny()
	}
	if len(args) == 1 {
		for _, p := range in.background {
			if interrupted, code := in.waitFor(p); interrupted {
				return code
			}
		}
		in.background = nil
		return 0
	}
	status := 0
	for _, arg := range args[1:] {
		p := in.job(arg)
		if p == nil {
			in.fail("wait: pid %s is not a child of this shell", arg)
			status = 127
			continue
		}
		interrupted, code := in.waitFor(p)
		if status = code; interrupted {
			return code
		}
	}
	return status
}

// waitFor waits for a process or for a signal with a trap.
func (in *interpreter) waitFor(p *process) (interrupted bool, code int) {
	for {
		select {
		case <-p.done:
			return false, p.code
		case <-in.ctx.Done():
			in.step(0)
		case <-in.process.woken:
			if s, ok := in.process.take(in.traps); ok {
				if in.runTrap(s.name()); in.flow == exiting {
					return true, in.status
				}
				return true, 128 + int(s)
			}
		}
	}
}

// waitAny waits for any process in the background.
func (in *interpreter) waitAny() int {
	if len(in.background) == 0 {
		return 127
	}
	ended := make(chan *process, len(in.background))
	stop := make(chan struct{})
	defer close(stop)
	for _, p := range in.background {
		go func() {
			select {
			case <-p.done:
				ended <- p
			case <-stop:
			}
		}()
	}
	select {
	case p := <-ended:
		in.background = slices.DeleteFunc(slices.Clone(in.background), func(o *process) bool { return o == p })
		return p.code
	case <-in.ctx.Done():
		in.step(0)
		return 1
	}
}

func jobs(in *interpreter, _ []string) int {
	for i, p := range in.background {
		state := "Running"
		select {
		case <-p.done:
			state = "Done"
		default:
		}
		fmt.Fprintf(in.stdout(), "[%d] %d %s\n", i+1, p.id, state)
	}
	return 0
}

// kill sends a signal.
func kill(in *interpreter, args []string) int {
	rest := args[1:]
	s, status := sigTERM, 0
	if len(rest) > 0 && rest[0] == "-l" {
		names := slices.SortedFunc(maps.Keys(signals), func(a, b string) int { return int(signals[a] - signals[b]) })
		fmt.Fprintln(in.stdout(), strings.Join(names, " "))
		return 0
	}
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") && len(rest) > 1 {
		name := rest[0][1:]
		if name == "s" || name == "n" {
			name, rest = rest[1], rest[1:]
		}
		if name != "-" {
			var ok bool
			if s, ok = signalOf(name); !ok {
				return in.fail("kill: bad signal name '%s'", name)
			}
		}
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return in.usage("kill: you need to specify whom to kill")
	}
	for _, arg := range rest {
		if id, err := strconv.Atoi(arg); err == nil {
			if p := in.process.machine.find(id); p != nil {
				p.signal(s)
			} else {
				in.fail("kill: can't kill pid %d: No such process", id)
				status = 1
			}
			continue
		}
		p := in.job(arg)
		if p == nil {
			status = in.fail("kill: bad pid '%s'", arg)
			continue
		}
		p.signal(s)
	}
	in.takeSignals()
	in.step(0)
	return status
}

// trap sets the action of signals and of the end of the shell.
func trap(in *interpreter, args []string) int {
	rest := args[1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 || rest[0] == "-p" {
		for _, name := range slices.Sorted(maps.Keys(in.traps)) {
			fmt.Fprintf(in.stdout(), "trap -- %s %s\n", quote(in.traps[name]), name)
		}
		return 0
	}
	action, names := rest[0], rest[1:]
	reset := action == "-"
	if len(names) == 0 {
		reset, names = true, rest
	}
	for _, arg := range names {
		name := strings.TrimPrefix(strings.ToUpper(arg), "SIG")
		switch name {
		case "0", "EXIT":
			name = "EXIT"
		case "ERR":
		default:
			s, ok := signalOf(name)
			if !ok || s == 0 {
				return in.fail("trap: %s: invalid signal specification", arg)
			}
			name = s.name()
			in.process.trap(s, !reset, action != "")
		}
		if reset {
			delete(in.traps, name)
		} else {
			in.grow(len(action) - len(in.traps[name]))
			in.traps[name] = action
		}
	}
	return 0
}
