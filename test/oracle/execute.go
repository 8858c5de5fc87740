package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigVariable is the environment variable that makes the tests of the runtime use another server.
const kubeconfigVariable = "FLYBALL_TEST_KUBECONFIG"

// root is the repository's root, seen from this module.
const root = "../.."

// interruptTimeout is how long an interrupted command may take to end.
const interruptTimeout = 10 * time.Second

// execute runs a command in the repository's root against kube-apiserver, which is stopped
// afterwards. Its error has the exit code of the command, as an [exec.ExitError].
func execute(ctx context.Context, b binaries, args []string) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.BoolVar(&b.fsync, "fsync", false, "etcd makes its writes durable")
	flags.StringVar(&b.etcd, "etcd", b.etcd, "the `file` of the program etcd, such as the stand-in of flyball assets")
	flags.StringVar(&b.etcdServers, "etcd-servers", "", "the `URL` of an etcd server that runs, such as the one of flyball up --etcd-listen")
	flags.BoolVar(&b.controllers, "controllers", false, "run kube-controller-manager too")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if args = flags.Args(); len(args) == 0 {
		return errors.New(usage)
	}
	if !b.exist() {
		return errNotBuilt
	}
	k, err := startKubernetes(ctx, b)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(k.dir, "kubeconfig")
	if err := writeKubeconfig(k.config, kubeconfig); err != nil {
		return errors.Join(err, k.stop())
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), kubeconfigVariable+"="+kubeconfig)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = interruptTimeout
	return errors.Join(cmd.Run(), k.stop())
}

// writeKubeconfig writes a configuration that refers to certificates by their files.
func writeKubeconfig(config *rest.Config, file string) error {
	const name = "kube-apiserver"
	return clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{name: {Server: config.Host, CertificateAuthority: config.CAFile}},
		AuthInfos: map[string]*api.AuthInfo{
			name: {ClientCertificate: config.CertFile, ClientKey: config.KeyFile},
		},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file)
}
