package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/log"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/memory"
)

// up returns the command "flyball up".
func up() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Run a control plane until Ctrl-C",
		Long:    upHelp,
		Example: upExamples,
		Args:    noArgs("see flyball up --help"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			setUpLogging(flags.verbosity)
			if err := flags.complete(cmd.Context(), cmd.Flags()); err != nil {
				return err
			}
			return flags.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags.add(cmd)
	return cmd
}

const upHelp = `Run a control plane in this process over HTTPS with client certificates.

It writes a kubeconfig for an administrator, prints one line when it is ready, and
stops on Ctrl-C or SIGTERM. It does not replace the kubeconfig of a control plane
that runs.

Without --data-dir, all objects are in memory, and lost when it stops. With --data-dir,
the directory keeps them: every write is on the disk before it is acknowledged. The next
start with the directory goes on where the last one has ended, with the same port and
the same keys. The directory has private keys.

With --etcd-servers, an etcd cluster keeps all objects, under the keys and in the
encodings of kube-apiserver. Several control planes can share the cluster; they should
listen on the same port of different hosts. The controllers run in one of them.

With --etcd-listen, it serves etcd's API over its storage too, for etcdctl and other
clients of etcd. These need no credentials, so the address must be a loopback address or
a Unix socket.

The cluster has one node, unless --nodes or --nodes-from say otherwise. Nodes and pods are
simulated: no container runs. A node that a user creates belongs to its own kubelet, unless
it has the annotation flyball.dev/kubelet: running.

With --controllers, some controllers run, or none: the API server alone, as envtest has it.
The names and the syntax are those of kube-controller-manager.

With --stages FILE|DIR, the kind Stage of kwok is installed, and kwok's stages play the pods, the
nodes and other objects. The flag may be repeated.

With --script FILE, the file says what the containers of images do, and which programs and
files their images have. Nothing of it leaves the memory of this process.

With --image NAME=COMMAND, a container with that image is that program, as a process of this
machine with the volumes, environment and arguments of the container. Whoever may create
pods with the image decides how the program is called. The flag may be repeated.

With --forward PODS:PORT=PORT, connections to a port of the pods go to a port of this machine:
from kubectl port-forward, the proxies, probes, and the API server itself, for webhooks and
extension API servers. No object can lead to a port of this machine that is not listed here or
in --loopback-ports.

The API server and the controllers log errors and warnings to standard error; -v logs
more.`

const upExamples = `  flyball up
  flyball up --listen 127.0.0.1:6443 --kubeconfig /tmp/kubeconfig
  flyball up --data-dir .flyball/data
  flyball up --nodes 5 --node-capacity cpu=8,memory=32Gi,pods=110 --node-zones a,b,c
  flyball up --listen 10.0.0.1:6443 --etcd-servers http://10.0.0.1:2379,http://10.0.0.2:2379
  flyball up --etcd-listen http://127.0.0.1:2379
  flyball up --controllers '*,-podgc'
  flyball up --controllers none
  flyball up --stages kwok/kustomize/stage/pod/fast
  flyball up --image controller:latest=./bin/manager
  flyball up --forward app=postgres:5432=15432
  kubectl --kubeconfig .flyball/kubeconfig get namespaces`

// setUpLogging makes all loggers of the process log to standard error through klog, like the Kubernetes libraries.
func setUpLogging(verbosity int) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosity)) // a number is always valid
	log.SetLogger(klog.Background())
}

// run runs a control plane until ctx ends or it fails.
func (f *upFlags) run(ctx context.Context, out io.Writer) error {
	start := time.Now()
	endEncryption, err := f.encryption.apply(&f.options)
	if err != nil {
		return err
	}
	defer endEncryption()
	etcd, err := listenEtcd(f.etcdListen)
	if err != nil {
		return err
	}
	defer etcd.close()
	f.options.Shared = etcd != nil // its clients may write to the storage
	if err := f.openStorage(ctx); err != nil {
		return err
	}
	life := ctx
	if len(f.programs) > 0 {
		life = context.WithoutCancel(ctx) // the programs end first
	}
	plane, err := controlplane.Start(life, f.options)
	if _, damaged := errors.AsType[*datadir.DamageError](err); damaged {
		return fmt.Errorf("%w: see what is intact with flyball data check %s", err, f.options.DataDir)
	}
	if err != nil {
		return err
	}
	endImages, err := runImages(plane, f.programs, os.Stderr)
	if err != nil {
		return errors.Join(err, plane.Stop())
	}
	etcd.serve(plane.Storage())
	fmt.Fprintf(out, "ready in %d ms at %s; try: kubectl --kubeconfig %s get namespaces\n",
		time.Since(start).Milliseconds(), plane.URL(), f.options.KubeconfigFile)
	if etcd != nil {
		fmt.Fprintf(out, "etcd's API is at %[1]s; try: etcdctl --endpoints %[1]s get --prefix --keys-only /registry/\n", etcd.url)
	}
	freeAfterStart()
	return runWithImages(ctx, plane, endImages)
}

// compressAfter is how long an object in memory must be unused before it is compressed.
const compressAfter = 10 * time.Second

// openStorage opens the storage of the control plane, unless the control plane opens its data directory or snapshot itself.
func (f *upFlags) openStorage(ctx context.Context) error {
	inCluster, err := f.cluster.used()
	if err != nil {
		return err
	}
	if inCluster {
		f.options.Shared = true
		f.options.Storage, err = f.cluster.open(ctx, &f.options)
		return err
	}
	if f.options.DataDir == "" && f.options.Snapshot == "" {
		f.options.Storage = memory.New(memory.Options{CompressAfter: compressAfter})
	}
	return nil
}
