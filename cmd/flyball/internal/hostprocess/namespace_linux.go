package hostprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// helperName is the name under which this executable is the helper. Its argument is an order.
const helperName = "flyball-helper"

// order is what a helper has to do.
type order struct {
	Parent int // the process ID of the parent
	Path   string
	Args   []string
	Mounts []Mount
	Hidden []string
	Reach  string
}

// failure is the report of a helper that has not become the program. The report of success is empty.
type failure struct {
	Mounting bool // or else the program cannot be executed
	Errno    syscall.Errno
	Text     string
}

// report is the file descriptor for the report. It is closed when the helper becomes the program.
const report = 3

// handover is the file descriptor of the socket by which a helper passes on its listener.
const handover = 4

// command returns the command of the program, or of the helper if the program has mounts. The function is to be called
// with the result of Start, and returns the error of the program's start.
func (p *Program) command() (*exec.Cmd, func(error) error, error) {
	if len(p.Mounts) == 0 && len(p.Hidden) == 0 && p.Reach == "" {
		return &exec.Cmd{Path: p.Path, Args: p.Args}, func(err error) error { return err }, nil
	}
	text, err := json.Marshal(order{os.Getpid(), p.Path, p.Args, p.Mounts, p.Hidden, p.Reach})
	if err != nil {
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{helperName, string(text)}, ExtraFiles: []*os.File{w}}
	cmd.SysProcAttr = namespaces()
	var ours *os.File
	if p.Reach != "" {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, nil, errors.Join(err, r.Close(), w.Close())
		}
		ours = os.NewFile(uintptr(pair[0]), "handover")
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(pair[1]), "handover"))
	}
	return cmd, func(err error) error {
		for _, f := range cmd.ExtraFiles {
			f.Close()
		}
		defer r.Close()
		if ours != nil {
			defer ours.Close()
		}
		if err != nil {
			return &NamespaceError{err}
		}
		text, err := io.ReadAll(r)
		if len(text) == 0 && err == nil {
			if ours != nil {
				p.listener, err = receiveListener(ours)
			}
			return err
		}
		_ = cmd.Wait() // the report says what has failed
		var f failure
		switch {
		case err != nil:
			return err
		case json.Unmarshal(text, &f) != nil: // the helper has crashed
			return &NamespaceError{fmt.Errorf("the helper reports %q", text)}
		case f.Mounting && f.Errno != 0:
			return &NamespaceError{fmt.Errorf("%s: %w", f.Text, f.Errno)}
		case f.Mounting:
			return &NamespaceError{errors.New(f.Text)}
		}
		return &os.PathError{Op: "exec", Path: p.Path, Err: f.Errno}
	}, nil
}

// namespaces returns the attributes of a child with a mount namespace. Without the privilege to mount, the child has a
// user namespace too, in which it has the privilege until it becomes the program, and its own user.
func namespaces() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if maySetUpMounts() {
		return a
	}
	uid, gid := os.Geteuid(), os.Getegid()
	a.Cloneflags |= unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	return a
}

// maySetUpMounts reports whether this process has CAP_SYS_ADMIN.
func maySetUpMounts() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Main is the main function of a helper. It returns if this process is none.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != helperName {
		return
	}
	runtime.LockOSThread() // the signal of the parent's death belongs to a thread
	unix.CloseOnExec(report)
	f := becomeProgram(os.Args[1])
	text, _ := json.Marshal(f) // it has strings and numbers
	_, _ = unix.Write(report, text)
	os.Exit(127)
}

// becomeProgram carries out an order. It returns if that fails.
func becomeProgram(text string) failure {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return failure{Mounting: true, Text: err.Error()}
	}
	dir, err := os.Getwd()
	if err == nil {
		err = mountAll(o.Mounts, o.Hidden)
	}
	if err == nil && o.Reach != "" {
		err = passListener(o.Reach)
	}
	if err == nil {
		err = os.Chdir(dir) // it may be below a directory that is a copy now
	}
	if err == nil {
		err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	}
	if err != nil {
		return failure{Mounting: true, Text: err.Error()}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return failure{Mounting: true, Text: err.Error()}
	}
	if os.Getppid() != o.Parent {
		os.Exit(127) // it has just ended
	}
	err = syscall.Exec(o.Path, o.Args, os.Environ())
	var errno syscall.Errno
	errors.As(err, &errno)
	return failure{Errno: errno}
}
