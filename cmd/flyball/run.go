package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/cmd/flyball/internal/hostprocess"
	"flyball.dev/cmd/flyball/internal/inpod"
	"flyball.dev/internal/restclient"
)

// The values of the flag --mounts.
const (
	mountsAuto   = "auto"
	mountsAlways = "always"
	mountsNever  = "never"
)

// podFlags are the flags of flyball run.
type podFlags struct {
	cluster          clusterFlags
	account, podName string
	mounts           string
}

// runProgram returns the command "flyball run".
func runProgram() *cobra.Command {
	var f podFlags
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENTS]",
		Short: "Run a program as if it were in a pod, with the rights of a service account",
		Long: `Run a program as if it were in a pod of the cluster: rest.InClusterConfig of client-go, and
every other client for pods, finds the API server, and has the rights of a service account
and no others.

The program sees the token, the certificate authority and the namespace in
` + inpod.Directory + `, in a mount namespace of its own. The token
is renewed while the program runs. Its environment is the one of this command, with the
variables KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and so on, POD_NAME,
POD_NAMESPACE, POD_IP, POD_SERVICE_ACCOUNT and HOSTNAME, and without KUBECONFIG.
~/.kube is empty for it.

Where the system permits no mount namespace, and on systems without, the program gets a
kubeconfig of the account in KUBECONFIG instead, and no variables KUBERNETES_SERVICE_*; a
message says so. --mounts=always makes that an error, and --mounts=never does it everywhere.

Signals go to the program, and its exit code is the exit code of this command.`,
		Example: `  flyball run --service-account shop-system/shop-controller-manager -- ./bin/manager --leader-elect=false
  flyball run -- sh -c 'cat ` + inpod.Directory + `/namespace'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("there is no program: name it after --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := f.run(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err == nil && code != 0 {
				err = exitCode(code)
			}
			return err
		},
	}
	f.cluster.add(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows the program belongs to it
	flags.StringVar(&f.account, "service-account", "default/default", "the service account, as NAMESPACE/NAME")
	flags.StringVar(&f.podName, "pod-name", "", "the value of POD_NAME and HOSTNAME (default the name of the program)")
	flags.StringVar(&f.mounts, "mounts", mountsAuto, "auto, always or never: whether the program has a mount namespace")
	refuseEmpty(flags, "service-account", "pod-name")
	completeValues(cmd, "mounts", mountsAuto, mountsAlways, mountsNever)
	return cmd
}

// run runs a program, and returns its exit code.
func (f *podFlags) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, err error) {
	if f.mounts != mountsAuto && f.mounts != mountsAlways && f.mounts != mountsNever {
		return 0, fmt.Errorf("--mounts %q is invalid: it must be auto, always or never", f.mounts)
	}
	account, err := inpod.ParseAccount(f.account)
	if err != nil {
		return 0, err
	}
	path, code, err := hostprocess.Find(args[0])
	if err != nil {
		fmt.Fprintln(stderr, "flyball:", err)
		return code, nil
	}
	dir, remove, err := inpod.NewDirectory("flyball-run-")
	if err != nil {
		return 0, err
	}
	defer remove()
	pod, err := f.newPod(ctx, account, dir, stderr)
	if err != nil {
		return 0, err
	}
	name := f.podName
	if name == "" {
		name = filepath.Base(args[0])
	}
	p := &hostprocess.Program{Path: path, Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr}
	signals := catchSignals()
	defer signals.stop()
	running, err := pod.start(p, name, f.mounts, stderr)
	var denied *os.PathError
	if errors.As(err, &denied) && denied.Op == "exec" {
		fmt.Fprintln(stderr, "flyball: cannot run", args[0]+":", denied.Err)
		return 126, nil
	}
	if err != nil {
		return 0, err
	}
	go signals.passTo(running)
	keep, end := context.WithCancel(context.WithoutCancel(ctx)) // the program decides when it ends
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		pod.credentials.Keep(keep, func(err error) { fmt.Fprintln(stderr, "flyball:", err) })
	}()
	code = running.ExitCode()
	end()
	<-kept
	return code, nil
}

// pod is what a program finds in a pod.
type pod struct {
	account     inpod.Account
	credentials *inpod.Credentials
	files       string // the directory of the credentials
	server      inpod.Server
	noServer    error  // why a pod would not find the API server
	kubeconfig  string // the file of the alternative
}

// newPod makes the files of a pod. Warnings of the API server go to stderr.
func (f *podFlags) newPod(ctx context.Context, account inpod.Account, dir string, stderr io.Writer) (*pod, error) {
	loaded, config, err := f.cluster.load(stderr)
	if err != nil {
		return nil, err
	}
	content, err := loaded.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	core, err := restclient.For(config, nil, corev1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("cannot use the kubeconfig: %w", err)
	}
	p := &pod{account: account, files: filepath.Join(dir, "serviceaccount"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := os.Mkdir(p.files, 0o700); err != nil {
		return nil, err
	}
	p.server, p.noServer = inpod.ServerOf(config)
	ca, err := inpod.CertificateAuthority(ctx, config, core, account.Namespace)
	if err != nil && p.noServer == nil {
		p.noServer = err
	}
	p.credentials, err = inpod.NewCredentials(ctx, core, account, ca, p.files)
	if err != nil && (apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsUnauthorized(err)) && ctx.Err() == nil {
		return nil, f.cluster.explain(loaded, config, err)
	}
	if err != nil {
		return nil, err
	}
	text, err := inpod.Kubeconfig(content, f.cluster.context, account, p.credentials.TokenFile())
	if err != nil {
		return nil, err
	}
	return p, os.WriteFile(p.kubeconfig, text, 0o600)
}

// start starts a program with the files and the environment of the pod, or with the alternative.
func (p *pod) start(program *hostprocess.Program, name, mounts string, stderr io.Writer) (*hostprocess.Process, error) {
	env := []string{"POD_NAME=" + name, "POD_NAMESPACE=" + p.account.Namespace, "POD_IP=127.0.0.1",
		"POD_SERVICE_ACCOUNT=" + p.account.Name, "HOSTNAME=" + name}
	for _, v := range os.Environ() {
		if !inpod.Foreign(v) {
			program.Env = append(program.Env, v)
		}
	}
	program.Env = append(program.Env, env...)
	if mounts != mountsNever {
		why := p.noServer
		if why == nil {
			mounting := *program
			mounting.Env = append(mounting.Env[:len(mounting.Env):len(mounting.Env)], p.server.Env()...)
			mounting.Mounts = []hostprocess.Mount{{Source: p.files, Target: inpod.Directory}}
			mounting.Hidden = []string{filepath.Dir(clientcmd.RecommendedHomeFile)}
			running, err := hostprocess.Start(&mounting)
			var denied *hostprocess.NamespaceError
			if !errors.As(err, &denied) {
				return running, err
			}
			why = denied
		}
		if mounts == mountsAlways {
			return nil, fmt.Errorf("the program cannot have the files of a pod: %w", why)
		}
		fmt.Fprintf(stderr, "flyball: the program cannot have the files of a pod (%v): KUBECONFIG names a kubeconfig of the service account %s instead\n",
			why, p.account)
	}
	program.Env = append(program.Env, clientcmd.RecommendedConfigPathEnvVar+"="+p.kubeconfig)
	return hostprocess.Start(program)
}
