package hostprocess

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"flyball.dev/internal/orphans"
)

// task is the variable by which the test program is a program of its own: it starts the Program in it.
const task = "FLYBALL_TEST_TASK"

// user is a user without privileges.
const user = 65534

func TestMain(m *testing.M) {
	Main()
	if text := os.Getenv(task); text != "" {
		os.Exit(perform(text))
	}
	os.Exit(m.Run())
}

// perform starts a program, prints its process ID, and returns its exit code. It prints the error if the program
// does not start.
func perform(text string) int {
	var t struct {
		Program
		WithoutNamespaces bool
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fmt.Println(err)
		return 1
	}
	if t.WithoutNamespaces {
		if err := refuseNamespaces(); err != nil {
			fmt.Println("skip:", err)
			return 0
		}
	}
	t.Env, t.Stdin, t.Stdout, t.Stderr = environment(), os.Stdin, os.Stdout, os.Stdout // which JSON does not have
	running, err := Start(&t.Program)
	if err != nil {
		fmt.Printf("%T: %v\n", errors.Unwrap(err), err)
		return 1
	}
	fmt.Println("pid", running.PID())
	return running.ExitCode()
}

// environment returns the variables of the programs of a test.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), orphans.Variable + "=" + os.Getenv(orphans.Variable)}
}

// refuseNamespaces makes the kernel refuse this process, which is in a user namespace of its own, further
// namespaces.
func refuseNamespaces() error {
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if _, _, err := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); err != 0 {
		return err
	}
	return nil
}

// performer returns the command of a task. If uid is not 0, another user performs it.
func performer(t *testing.T, p Program, uid uint32) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Dir = "/"
	if uid != 0 {
		cmd.Path = copyProgram(t, program)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	cmd.Env = append([]string{task + "=" + string(text)}, environment()...)
	return cmd
}

// copyProgram copies a program to where every user can execute it.
func copyProgram(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flyball-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	content, err := os.ReadFile(program)
	file := filepath.Join(dir, "program")
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(file, content, 0o755), os.Chmod(file, 0o755)); err != nil {
		t.Fatal(err)
	}
	return file
}

// users are the users that the tests run as: root, who needs no user namespace, and another one. If the tests are not
// run by root, they run as the user of the tests.
func users() map[string]uint32 {
	if os.Geteuid() != 0 {
		return map[string]uint32{"user": 0}
	}
	return map[string]uint32{"root": 0, "user": user}
}

// source makes a directory with files, which everybody can read.
func source(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flyball-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "token"), []byte("first\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMounts: each target has the files of the source, everything else is as it is on this machine, and nothing is
// created on it.
func TestMounts(t *testing.T) {
	dir := source(t)
	existing, err := os.MkdirTemp("", "flyball-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(existing) })
	link := existing + "/link"
	if err := errors.Join(os.Chmod(existing, 0o755), os.Mkdir(existing+"/dir", 0o755), os.WriteFile(existing+"/file", []byte("of the machine\n"), 0o644),
		os.Symlink("dir", link), os.Symlink("nowhere", existing+"/dangling")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, target string
		file         bool
		script, want string
	}{
		{name: "a directory that exists", target: existing + "/dir", script: "cat $T/token; cat " + existing + "/file", want: "first\nof the machine\n"},
		{name: "a link to a directory", target: link, script: "cat " + existing + "/dir/token", want: "first\n"},
		{name: "a file that exists", target: existing + "/file", file: true, script: "cat $T", want: "first\n"},
		{name: "a directory that does not exist", target: existing + "/a/b", script: "cat $T/token; cat " + existing + "/file; ls " + existing,
			want: "first\nof the machine\na\ndangling\ndir\nfile\nlink\n"},
		{name: "a file that does not exist", target: existing + "/dir/config.yaml", file: true, script: "cat $T; ls " + existing + "/dir", want: "first\nconfig.yaml\n"},
		{name: "at the root", target: "/flyball-test/volume", script: "cat $T/token; cat " + existing + "/file; ls -d /proc/self /flyball-test; ls -A / | grep flyball; pwd",
			want: "first\nof the machine\n/flyball-test\n/proc/self\nflyball-test\n/\n"},
		{name: "as in a pod", target: "/var/run/secrets/kubernetes.io/serviceaccount", script: "cat $T/token", want: "first\n"},
	} {
		for name, uid := range users() {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				_, before := os.Stat(tt.target)
				m := Mount{Source: dir, Target: tt.target}
				if tt.file {
					m.Source += "/token"
				}
				const state = "; id -u; grep CapEff /proc/self/status"
				cmd := performer(t, Program{Path: "/bin/sh", Args: []string{"sh", "-c", "T=" + tt.target + "; " + tt.script + state}, Mounts: []Mount{m}}, uid)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				want := tt.want + strconv.Itoa(int(max(uid, uint32(os.Geteuid())))) + "\n"
				got, caps, _ := strings.Cut(withoutPID(string(out)), "CapEff:")
				if got != want {
					t.Errorf("the program printed\n%swant\n%s", got, want)
				}
				if uid != 0 && strings.TrimSpace(caps) != "0000000000000000" {
					t.Errorf("the program has the capabilities %s", caps)
				}
				if _, after := os.Stat(tt.target); errors.Is(before, fs.ErrNotExist) != errors.Is(after, fs.ErrNotExist) {
					t.Errorf("%s was created on this machine", tt.target)
				}
			})
		}
	}
	if content, err := os.ReadFile(existing + "/file"); string(content) != "of the machine\n" || err != nil {
		t.Errorf("the file is %q, %v", content, err)
	}
}

// withoutPID removes the line with the process ID, which the parent of the program prints.
func withoutPID(out string) (rest string) {
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "pid ") {
			rest += line
		}
	}
	return rest
}

// TestMountsThatFail: the error is a NamespaceError, and says where.
func TestMountsThatFail(t *testing.T) {
	dir := source(t)
	if err := os.Symlink("nowhere", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	for want, m := range map[string]Mount{
		"open /flyball-none: no such file or directory":              {"/flyball-none", "/tmp"},
		"mount " + dir + "/token: not a directory":                   {dir, dir + "/token"},
		"/dangling is a symbolic link to a file that does not exist": {dir, dir + "/dangling"},
		"not a directory": {dir, dir + "/token/x"},
	} {
		_, err := Start(&Program{Path: "/bin/true", Args: []string{"true"}, Mounts: []Mount{m}})
		var failed *NamespaceError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestChangesAreVisible: the program sees a file that is replaced while it runs.
func TestChangesAreVisible(t *testing.T) {
	for name, uid := range users() {
		t.Run(name, func(t *testing.T) {
			dir := source(t)
			cmd := performer(t, Program{Path: "/bin/sh", Args: []string{"sh", "-c", "read x; cat /flyball-test/token"},
				Mounts: []Mount{{dir, "/flyball-test"}}}, uid)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(dir+"/new", []byte("second\n"), 0o644), os.Rename(dir+"/new", dir+"/token")); err != nil {
				t.Fatal(err)
			}
			io.WriteString(stdin, "go\n")
			if err := cmd.Wait(); err != nil || withoutPID(out.String()) != "second\n" {
				t.Errorf("%v: %s", err, &out)
			}
		})
	}
}

// TestHidden: a hidden directory is empty, and one that does not exist is no error.
func TestHidden(t *testing.T) {
	dir := source(t)
	for name, uid := range users() {
		t.Run(name, func(t *testing.T) {
			out, err := performer(t, Program{Path: "/bin/ls", Args: []string{"ls", "-A", dir}, Hidden: []string{dir, "/flyball-none/x"}}, uid).CombinedOutput()
			if err != nil || withoutPID(string(out)) != "" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestNamespacesAreRefused: a kernel that permits no namespace is a NamespaceError, and the program can be started without
// mounts.
func TestNamespacesAreRefused(t *testing.T) {
	for _, mounts := range [][]Mount{{{source(t), "/tmp"}}, nil} {
		cmd := performer(t, Program{Path: "/bin/true", Args: []string{"true"}, Mounts: mounts}, 0)
		cmd.Env[0] = strings.Replace(cmd.Env[0], "{", `{"WithoutNamespaces":true,`, 1)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if strings.HasPrefix(string(out), "skip:") {
			t.Skip(string(out))
		}
		if mounts == nil && err != nil || mounts != nil && (err == nil || !strings.Contains(string(out), "cannot mount in a namespace: ")) {
			t.Errorf("%d mounts: %v: %s", len(mounts), err, out)
		}
	}
}

func TestExitCodes(t *testing.T) {
	dir := source(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		for _, mounts := range [][]Mount{nil, {{dir, "/flyball-test"}}} {
			running, err := Start(&Program{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Mounts: mounts})
			if err != nil {
				t.Fatal(err)
			}
			if code := running.ExitCode(); code != want {
				t.Errorf("%s: exit code %d", script, code)
			}
			running.Signal(syscall.SIGTERM) // it has ended
		}
	}
	for _, mounts := range [][]Mount{nil, {{dir, "/flyball-test"}}} {
		_, err := Start(&Program{Path: dir + "/token", Args: []string{"token"}, Mounts: mounts})
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a file that cannot be executed: %v", err)
		}
		if denied := new(NamespaceError); errors.As(err, &denied) {
			t.Errorf("a file that cannot be executed: %v", err)
		}
	}
	for name, want := range map[string]int{"sh": 0, "flyball-none": 127, dir + "/none": 127, dir + "/token": 126} {
		if path, code, err := Find(name); code != want || (err == nil) != (want == 0) || (path != "") != (want == 0) {
			t.Errorf("%s: %q, %d, %v", name, path, code, err)
		}
	}
}

// TestGroup: a signal reaches the processes that a program has started, and they do not outlive it.
func TestGroup(t *testing.T) {
	for _, tt := range []struct {
		script string
		signal os.Signal
		want   int
	}{
		{"sleep 1000 & echo $!; exit 3", nil, 3},
		{"trap 'exit 4' TERM; sleep 1000 & echo $!; wait; wait", syscall.SIGTERM, 4},
		{"trap '' TERM; sleep 1000 & echo $!; wait", os.Kill, 137},
	} {
		r, w := io.Pipe()
		running, err := Start(&Program{Path: "/bin/sh", Args: []string{"sh", "-c", tt.script}, Group: true, Stdout: w})
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		child, _ := strconv.Atoi(strings.TrimSpace(line))
		ended := watch(t, child)
		if tt.signal != nil {
			running.Signal(tt.signal)
		}
		if code := running.ExitCode(); code != tt.want {
			t.Errorf("%s: exit code %d", tt.script, code)
		}
		ended()
	}
}

// TestKilledWithParent: the program ends when the process that has started it is killed, with mounts and without.
func TestKilledWithParent(t *testing.T) {
	dir := source(t)
	for name, uid := range users() {
		for _, mounts := range [][]Mount{nil, {{dir, "/flyball-test"}}} {
			t.Run(name+"/"+strconv.Itoa(len(mounts)), func(t *testing.T) {
				cmd := performer(t, Program{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Mounts: mounts, Group: true}, uid)
				out, err := cmd.StdoutPipe()
				if err := errors.Join(err, cmd.Start()); err != nil {
					t.Fatal(err)
				}
				line, err := bufio.NewReader(out).ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				child, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "pid ")))
				if err != nil {
					t.Fatal(err)
				}
				ended := watch(t, child)
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				ended()
				_ = cmd.Wait() // it was killed
			})
		}
	}
}

// watch returns a function that waits until a process has ended. It fails the test after a while.
func watch(t *testing.T, pid int) func() {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return func() {} // it has ended
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		defer unix.Close(fd)
		deadline := time.Now().Add(5 * time.Minute)
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(deadline).Milliseconds()))
			switch {
			case n > 0:
				return
			case !errors.Is(err, unix.EINTR):
				_ = unix.Kill(pid, unix.SIGKILL)
				t.Errorf("process %d still runs, %v", pid, err)
				return
			}
		}
	}
}
