package kubelettest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// OOMKilled is the reason of a container that was killed for its memory.
const OOMKilled = "OOMKilled"

// The exit codes of containers that signals end.
const (
	Killed     = 137
	Terminated = 143
)

// End is the end of a process: after a time, with an exit code. A process without an end runs until it is stopped.
type End struct {
	Never  bool
	After  time.Duration
	Code   int
	Reason string // OOMKilled or ""
}

// parseEnd parses "1500ms 3", "1500ms OOMKilled" and "never".
func parseEnd(text string) (e End, err error) {
	if text == "never" {
		return End{Never: true}, nil
	}
	after, code, _ := strings.Cut(text, " ")
	if e.After, err = time.ParseDuration(after); err != nil {
		return End{}, err
	}
	if code == OOMKilled {
		e.Code, e.Reason = Killed, OOMKilled
		return e, nil
	}
	e.Code, err = strconv.Atoi(code)
	return e, err
}

// Program is what a container does, by its command:
//
//	[run, "1500ms 3", "never", "stop 2s 0", "serve 2500ms"]
//
// The first run fails after one and a half seconds, and the later runs go on. After SIGTERM the container needs two seconds, and
// exits with 0. Without "stop" it ends at once with the exit code 143. With "serve" it answers HTTP requests at port 8080, with the
// status code 503 before this time.
type Program struct {
	Runs  []End
	Stop  End
	Serve *time.Duration // since the start
}

// Port is the port of programs that serve.
const Port = 8080

// ParseProgram parses the command of a container.
func ParseProgram(command []string) (p Program, err error) {
	if len(command) < 2 || command[0] != "run" {
		return p, fmt.Errorf("%q is not a program", command)
	}
	p.Stop = End{Code: Terminated}
	for _, arg := range command[1:] {
		if text, ok := strings.CutPrefix(arg, "serve "); ok {
			from, err := time.ParseDuration(text)
			if err != nil {
				return p, err
			}
			p.Serve = &from
			continue
		}
		text, stop := strings.CutPrefix(arg, "stop ")
		e, err := parseEnd(text)
		if err != nil {
			return p, fmt.Errorf("%q: %w", command, err)
		}
		if stop {
			p.Stop = e
		} else {
			p.Runs = append(p.Runs, e)
		}
	}
	return p, nil
}

// Run returns the end of a run. The first one has the number 0, and the last one is repeated.
func (p Program) Run(number int) End { return p.Runs[min(number, len(p.Runs)-1)] }

// Probe returns the exit code of an exec probe in a container that has run for some time:
//
//	[probe, "2500ms 0", "5s 1"]
//
// fails before two and a half seconds, then succeeds, and fails after five seconds.
func Probe(command []string, age time.Duration) (code int, err error) {
	code = 1
	for _, arg := range command[1:] {
		e, err := parseEnd(arg)
		if err != nil {
			return 0, err
		}
		if age >= e.After {
			code = e.Code
		}
	}
	return code, nil
}

// ProbeOutput is what a failing probe writes.
const ProbeOutput = "not yet\n"

// Hook returns the end of a hook: [hook, "2s 0"].
func Hook(command []string) (End, error) {
	if len(command) != 2 || command[0] != "hook" {
		return End{}, fmt.Errorf("%q is not a hook", command)
	}
	return parseEnd(command[1])
}
