package orphans

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// guardName is the name under which this executable is a guard. Its argument is the mark.
const guardName = "flyball-orphans"

// alive is the end of the guard's pipe that closes when this process ends.
//
//lint:ignore U1000 without it, the garbage collector would close the pipe
var alive *os.File

func init() {
	if os.Args[0] == guardName {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the process ends
		untilNone(func() bool { return kill(os.Args[1]) })
		os.Exit(0)
	}
	if os.Getenv(Variable) != "" {
		return // this process is a program of a test
	}
	if err := start(); err != nil {
		panic(fmt.Sprintf("start the guard of the test's programs: %v", err))
	}
}

// start starts a guard and sets the mark.
func start() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	alive = w
	mark := rand.Text()
	guard := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{guardName, Variable + "=" + mark},
		Env:         []string{}, // no mark of another test
		Dir:         "/",
		Stdin:       r,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // it outlives the signals to the group of this process
	}
	if err := guard.Start(); err != nil {
		return err
	}
	return os.Setenv(Variable, mark)
}

// untilNone scans for processes until two scans in a row have found none: while a process executes a program, it has no
// environment for a moment. The pauses grow, for a process that cannot end now.
func untilNone(scan func() (found bool)) {
	pause := 5 * time.Millisecond
	for none := 0; none < 2; time.Sleep(pause) {
		none++
		if scan() {
			none, pause = 0, min(2*pause, time.Second)
		}
	}
}

// kill kills the processes with a mark, and reports whether there were any.
func kill(mark string) (found bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		process, err := os.FindProcess(pid) // which no later process with the same number is
		if err != nil {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(environment, []byte(mark)) && process.Kill() == nil {
			found = true
		}
		_ = process.Release()
	}
	return found
}
