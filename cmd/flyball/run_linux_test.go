package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/controlplane"
)

// startPlane starts a control plane with a kubeconfig and an account default/operator.
func startPlane(t *testing.T) (kubeconfig string) {
	t.Helper()
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0", KubeconfigFile: kubeconfig, WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plane.Stop() })
	_, err = kubernetes.NewForConfigOrDie(plane.Config()).CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// flyballRun returns the command flyball run with arguments.
func flyballRun(kubeconfig string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append([]string{"run", "--kubeconfig", kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "FLYBALL_MAIN=1", "KUBECONFIG=/nowhere", "KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443")
	return cmd
}

// TestRun runs programs with and without a mount namespace.
func TestRun(t *testing.T) {
	kubeconfig := startPlane(t)
	const (
		account = "--service-account=default/operator"
		denied  = `User "system:serviceaccount:default:operator" cannot get resource "namespaces"`
		message = `KUBECONFIG names a kubeconfig of the service account default/operator instead`
	)
	client := []string{"env", "FLYBALL_TEST_IN_POD=1", "FLYBALL_MAIN=", os.Args[0]}
	for _, tt := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		{"a client in a pod", append([]string{account, "--mounts=always", "--"}, client...), 0, `^$`, `^namespaces .*` + denied},
		{"a client with a kubeconfig", append([]string{account, "--mounts=never", "--"}, client...), 0, `^$`, `^namespaces .*` + denied},
		{"the files of a pod", []string{account, "--mounts=always", "sh", "-c", `cd /var/run/secrets/kubernetes.io/serviceaccount && ls && cat namespace && head -1 ca.crt && echo $KUBECONFIG-`}, 0,
			`^ca.crt\nnamespace\ntoken\ndefault-----BEGIN CERTIFICATE-----\n-\n$`, `^$`},
		{"the environment", []string{account, "--", "sh", "-c", `echo $POD_NAME $HOSTNAME $POD_NAMESPACE $POD_SERVICE_ACCOUNT $POD_IP $KUBERNETES_SERVICE_HOST; echo $KUBERNETES_PORT $HOME`}, 0,
			`^sh sh default operator 127.0.0.1 127.0.0.1\ntcp://127.0.0.1:\d+ ` + os.Getenv("HOME") + `\n$`, `^$`},
		{"the alternative", []string{account, "--mounts=never", "--pod-name=x", "--", "sh", "-c", `echo $POD_NAME $KUBERNETES_SERVICE_HOST-; grep namespace: $KUBECONFIG`}, 0,
			`^x -\n +namespace: default\n$`, `^$`},
		{"flags of the program", []string{account, "echo", "--kubeconfig", "x"}, 0, `^--kubeconfig x\n$`, `^$`},
		{"an exit code", []string{account, "--", "sh", "-c", "exit 7"}, 7, `^$`, `^$`},
		{"a signal", []string{account, "--", "sh", "-c", "kill -TERM $$"}, 143, `^$`, `^$`},
		{"no such program", []string{account, "--", "flyball-none"}, 127, `^$`, `^flyball: cannot run flyball-none: executable file not found in \$PATH\n$`},
		{"no program at all", []string{account, "--", kubeconfig}, 126, `^$`, `^flyball: cannot run .*kubeconfig: permission denied\n$`},
		{"no such account", []string{"--service-account=default/none", "true"}, 1, `^$`, `^flyball: serviceaccounts "none" not found: kubectl create serviceaccount --namespace default none\n$`},
		{"a wrong account", []string{"--service-account=none", "true"}, 1, `^$`, `must have the form NAMESPACE/NAME\n$`},
		{"a wrong value", []string{"--mounts=x", "true"}, 1, `^$`, `--mounts "x" is invalid`},
		{"no command", nil, 1, `^$`, `there is no program: name it after --`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			var stdout, stderr bytes.Buffer
			cmd := flyballRun(kubeconfig, tt.args...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // the exit code follows
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout.String()) ||
				!regexp.MustCompile(tt.stderr).MatchString(stderr.String()) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, tt.code, &stdout, &stderr)
			}
			if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "flyball-*")); err != nil || len(left) > 0 {
				t.Errorf("%q are left, %v", left, err)
			}
		})
	}
	t.Run("no mount namespace", func(t *testing.T) {
		cmd := flyballRun(kubeconfig, account, "--", "sh", "-c", "echo $KUBERNETES_SERVICE_HOST-; test -f $KUBECONFIG")
		cmd.Args = append(cmd.Args[:1:1], append([]string{"run", "--kubeconfig", withPath(t, kubeconfig)}, cmd.Args[4:]...)...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "has a path") || !strings.Contains(string(out), message) || !strings.HasSuffix(string(out), "\n-\n") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// withPath returns a kubeconfig with a URL that has a path, as behind a proxy with many clusters. No pod finds such a
// server.
func withPath(t *testing.T, kubeconfig string) string {
	t.Helper()
	content, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range content.Clusters {
		c.Server += "/."
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*content, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRunPassesSignals: signals reach the program, also a second one, and its own exit code is the result.
func TestRunPassesSignals(t *testing.T) {
	kubeconfig := startPlane(t)
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		t.Run(sent.String(), func(t *testing.T) {
			if signal.Ignored(sent) { // as in the background of a shell: a program cannot trap it
				t.Skipf("this process ignores %v", sent)
			}
			cmd := flyballRun(kubeconfig, "--service-account=default/operator", "--", "sh", "-c",
				`n=0; trap 'n=$((n+1)); echo got $n; test $n = 2 && exit 5' INT TERM HUP USR1; echo ready; while :; do sleep 0.01; done`)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
			r, w := io.Pipe()
			cmd.Stdout, cmd.Stderr = w, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewScanner(r)
			for _, want := range []string{"ready", "got 1", "got 2"} {
				if !out.Scan() || out.Text() != want {
					t.Fatalf("the program printed %q, %v", out.Text(), out.Err())
				}
				if want != "got 2" {
					if err := cmd.Process.Signal(sent); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = cmd.Wait() // the exit code follows
			if code := cmd.ProcessState.ExitCode(); code != 5 {
				t.Errorf("the exit code is %d", code)
			}
		})
	}
}
