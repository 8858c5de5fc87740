package oldclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

// stream runs a command in a pod, or attaches to it if there is none.
func stream(t *testing.T, pod, stdin string, tty bool, command ...string) (stdout, stderr string, err error) {
	t.Helper()
	req := shared.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name(pod)
	if len(command) > 0 {
		req.SubResource("exec").VersionedParams(&corev1.PodExecOptions{Container: "c", Command: command, Stdin: stdin != "", Stdout: true, Stderr: !tty, TTY: tty}, scheme.ParameterCodec)
	} else {
		req.SubResource("attach").VersionedParams(&corev1.PodAttachOptions{Container: "c", Stdin: stdin != "", Stdout: true, Stderr: !tty, TTY: tty}, scheme.ParameterCodec)
	}
	executor, err := remotecommand.NewSPDYExecutor(shared.config, "POST", req.URL())
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	options := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut, Tty: tty}
	if stdin != "" {
		options.Stdin = strings.NewReader(stdin)
	}
	if tty {
		options.Stderr = nil
	}
	err = executor.Stream(options)
	return out.String(), errOut.String(), err
}

// TestExec executes commands, with standard input, an exit code and a terminal.
func TestExec(t *testing.T) {
	running(limit(t), t, newPod("exec", nil, "sleep", "1d"))
	if stdout, stderr, err := stream(t, "exec", "", false, "sh", "-c", "echo out; echo err >&2"); stdout != "out\n" || stderr != "err\n" || err != nil {
		t.Errorf("stdout %q, stderr %q, %v", stdout, stderr, err)
	}
	text := strings.Repeat("a line of some length\n", 20000)
	if stdout, _, err := stream(t, "exec", text, false, "cat"); stdout != text || err != nil {
		t.Errorf("cat returns %d bytes of %d, %v", len(stdout), len(text), err)
	}
	_, _, err := stream(t, "exec", "", false, "sh", "-c", "exit 7")
	var exit exec.CodeExitError
	if !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("the error of a command that exits with 7 is %v", err)
	}
	if stdout, _, err := stream(t, "exec", "echo $((6*7)); exit\n", true, "sh"); !strings.Contains(stdout, "42") || err != nil {
		t.Errorf("the terminal shows %q, %v", stdout, err)
	}
	if _, _, err := stream(t, "none", "", false, "true"); err == nil || !strings.Contains(err.Error(), `pods "none" not found`) {
		t.Errorf("exec in a pod that does not exist: %v", err)
	}
}

// TestAttach attaches to a process that reads its standard input.
func TestAttach(t *testing.T) {
	pod := newPod("attach", nil, "sh", "-c", "read line; echo got $line; sleep 1d")
	pod.Spec.Containers[0].Stdin, pod.Spec.Containers[0].StdinOnce = true, true
	running(limit(t), t, pod)
	logs := follow(t, "attach")
	done := make(chan error, 1)
	go func() {
		_, _, err := stream(t, "attach", "hello\n", false)
		done <- err
	}()
	if logs.Scan(); logs.Text() != "got hello" {
		t.Errorf("the log is %q, %v", logs.Text(), logs.Err())
	}
	if err := shared.CoreV1().Pods("default").Delete(limit(t), "attach", *metav1.NewDeleteOptions(0)); err != nil {
		t.Error(err)
	}
	<-done // the stream ends with the pod
}

// follow follows the log of a pod.
func follow(t *testing.T, pod string) *bufio.Scanner {
	t.Helper()
	log, err := shared.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return bufio.NewScanner(log)
}

// TestPortForward sends data through a forwarded port, on several connections.
func TestPortForward(t *testing.T) {
	running(limit(t), t, newPod("echo", map[string]string{"app": "echo"}, "sleep", "1d"))
	transport, upgrader, err := spdy.RoundTripperFor(shared.config)
	if err != nil {
		t.Fatal(err)
	}
	url := shared.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("echo").SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", url), []string{"127.0.0.1"}, []string{"0:7"},
		stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", ports[0].Local))
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint("connection ", i, "\n")
		if _, err := io.WriteString(c, text); err != nil {
			t.Error(err)
		}
		if got, err := bufio.NewReader(c).ReadString('\n'); got != text || err != nil {
			t.Errorf("the echo of %q is %q, %v", text, got, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
