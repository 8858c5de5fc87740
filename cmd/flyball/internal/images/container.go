package images

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/controllers/pods/runtime"
)

// terminationSignal asks a program to end.
const terminationSignal = syscall.SIGTERM

// baseVariables are the variables that programs get from this process. A pod cannot change the variables in fixed. By
// FLYBALL_ORPHANS, which only tests set, a program ends with the test that has started this process.
var baseVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "GOCOVERDIR", "SystemRoot", "FLYBALL_ORPHANS"}

// fixed are variables that decide which files a program executes. A pod that could set them could execute files of this
// machine that are not the program of its image. The prefixes belong to dynamic linkers.
var (
	fixed         = []string{"PATH", "BASH_ENV", "ENV", "SHELLOPTS", "IFS", "GCONV_PATH", "PERL5LIB", "PERL5OPT", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "RUBYLIB", "RUBYOPT", "NODE_OPTIONS", "NODE_PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "GIT_EXEC_PATH"}
	fixedPrefixes = []string{"LD_", "DYLD_"}
)

// baseEnv returns the variables that programs get from this process.
func baseEnv() (env []string) {
	for _, name := range baseVariables {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// checkEnv returns an error if a container sets a variable that it cannot change.
func checkEnv(c *corev1.Container) error {
	for _, v := range c.Env {
		if isFixed(v.Name) {
			return fmt.Errorf("the container sets the variable %s, which a program of the host does not get from a pod", v.Name)
		}
	}
	return nil
}

// isFixed reports whether a pod cannot change a variable.
func isFixed(name string) bool {
	return slices.Contains(fixed, name) ||
		slices.ContainsFunc(fixedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// arguments returns the arguments of the program of an image. The command of a container names a file of its image, and
// here the program is in its place; what follows are arguments.
func (i *Image) arguments(p *runtime.Process) []string {
	args := p.Args
	if len(p.Container.Command) > 0 && len(args) > 0 {
		args = args[1:]
	}
	return slices.Concat(i.Command, args)
}

// environment returns the variables of a container, without those by which it would find another API server.
func (r *Runner) environment(p *runtime.Process) []string {
	env := slices.Clone(r.base)
	for _, v := range p.Env {
		name, _, _ := strings.Cut(v, "=")
		if !inpod.Foreign(v) && !isFixed(name) {
			env = append(env, v)
		}
	}
	return env
}

// startProcess makes the volumes of a container, and starts its program.
func (r *Runner) startProcess(c *container, image *Image, p *runtime.Process) error {
	if err := os.MkdirAll(r.podDir(p.Pod.UID), 0o700); err != nil {
		return err
	}
	program := &hostprocess.Program{
		Path: image.path, Args: image.arguments(p), Env: r.environment(p), Group: true,
		Stdin: p.Stdin, Stdout: writer(p.Stdout), Stderr: stderr(p),
	}
	mounts, err := r.mounts(c, image, p)
	if err != nil {
		return err
	}
	inNamespace := *program
	inNamespace.Mounts = mounts
	inNamespace.Hidden = []string{filepath.Dir(clientcmd.RecommendedHomeFile)}
	inNamespace.Env = slices.Concat(program.Env, r.options.Server.Env())
	c.process, err = hostprocess.Start(&inNamespace)
	var denied *hostprocess.NamespaceError
	if !errors.As(err, &denied) {
		return err
	}
	r.warned.Do(func() { r.options.Warn(denied.Error()) })
	return r.startWithoutNamespace(c, program, mounts, p, denied)
}

// startWithoutNamespace starts a program that sees no volumes, and finds its API server by a kubeconfig.
func (r *Runner) startWithoutNamespace(c *container, program *hostprocess.Program, mounts []hostprocess.Mount, p *runtime.Process,
	denied error) (err error) {
	i := slices.IndexFunc(mounts, func(m hostprocess.Mount) bool { return m.Target == inpod.Directory })
	if i < 0 {
		c.process, err = hostprocess.Start(program)
		return err
	}
	account := inpod.Account{Namespace: p.Pod.Namespace, Name: p.Pod.Spec.ServiceAccountName}
	text, err := inpod.Kubeconfig(r.options.Kubeconfig, "", account, filepath.Join(mounts[i].Source, "token"))
	if err != nil {
		return err
	}
	file := filepath.Join(r.podDir(p.Pod.UID), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	program.Env = append(program.Env, clientcmd.RecommendedConfigPathEnvVar+"="+file)
	fmt.Fprintf(stderr(p), "flyball: the program sees no volumes (%v): KUBECONFIG names a kubeconfig of the service account %s\n", denied, account)
	c.process, err = hostprocess.Start(program)
	return err
}

// reportTermination writes the message of a container that has not started, where containers write theirs.
func reportTermination(p *runtime.Process, message string) {
	name := p.Container.TerminationMessagePath
	if name == "" || p.FS == nil {
		return
	}
	f, err := p.FS.OpenFile(path.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return // the message is in the log, too
	}
	defer f.Close()
	_, _ = io.WriteString(f, message)
}

// writer returns a writer, or one that discards in place of nil.
func writer(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// stderr returns the writer of the errors of a process, which is the one of its output if it has a terminal.
func stderr(p *runtime.Process) io.Writer {
	if p.TTY || p.Stderr == nil {
		return writer(p.Stdout)
	}
	return p.Stderr
}
