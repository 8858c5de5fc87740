package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/log"
	"flyball.dev/internal/kubeconfig"
	"flyball.dev/storage/memory"
)

// up returns the command "flyball up".
func up() *cobra.Command {
	var options controlplane.Options
	var cluster etcdCluster
	var encryption encryptionFlags
	var verbosity int
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a control plane until Ctrl-C",
		Long: `Run a control plane in this process over HTTPS with client certificates.

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

The API server and the controllers log errors and warnings to standard error; -v logs
more.`,
		Example: `  flyball up
  flyball up --listen 127.0.0.1:6443 --kubeconfig /tmp/kubeconfig
  flyball up --data-dir .flyball/data
  flyball up --listen 10.0.0.1:6443 --etcd-servers http://10.0.0.1:2379,http://10.0.0.2:2379
  kubectl --kubeconfig .flyball/kubeconfig get namespaces`,
		Args: noArgs("see flyball up --help"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			setUpLogging(verbosity)
			return runUp(cmd.Context(), cmd.OutOrStdout(), options, cluster, encryption)
		},
	}
	cmd.Flags().StringVar(&options.KubeconfigFile, "kubeconfig", kubeconfig.DefaultPath,
		"the file to write the administrator's kubeconfig to")
	cmd.Flags().StringVar(&options.DataDir, "data-dir", "",
		"the directory that keeps all objects; by default there is none, and they are in memory alone")
	cluster.add(cmd.Flags())
	encryption.add(cmd.Flags())
	cmd.Flags().StringVar(&options.Snapshot, "snapshot", "",
		"a file of flyball snapshot save to start from; changes are in memory alone")
	cmd.MarkFlagsMutuallyExclusive("data-dir", "snapshot", "etcd-servers")
	cmd.Flags().IntVarP(&verbosity, "v", "v", 0,
		"log level: 0 logs errors and warnings, 1 also the start and stop of controllers, "+
			"2 also the events that they record; up to 10")
	cmd.Flags().StringVar(&options.Listen, "listen", "127.0.0.1:0", "the address and port to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&options.AuthorizationMode, "authorization-mode", "RBAC",
		"how requests are authorized: RBAC, by roles and bindings; Node,RBAC, where a user system:node:NAME "+
			"in the group system:nodes may also do what the kubelet of that node may; or AlwaysAllow")
	cmd.Flags().BoolVar(&options.WithoutFastPath, "without-fast-path", false,
		"serve every request with Kubernetes' handlers, and none with the server's own, which are faster; "+
			"if the responses differ, that is a bug of flyball")
	audit := &options.Audit
	cmd.Flags().StringVar(&audit.PolicyFile, "audit-policy-file", "", "the file that defines the audit policy")
	cmd.Flags().StringVar(&audit.LogPath, "audit-log-path", "",
		"the file to log requests to, as the audit policy says; - is standard output")
	cmd.Flags().StringVar(&audit.Format, "audit-log-format", "json", "the format of the audit log: json or legacy")
	cmd.Flags().IntVar(&audit.MaxSize, "audit-log-maxsize", 100,
		"the size in megabytes at which the audit log is rotated; 0 means never")
	cmd.Flags().IntVar(&audit.MaxAge, "audit-log-maxage", 366,
		"how many days a rotated audit log is kept; 0 means for ever")
	cmd.Flags().IntVar(&audit.MaxBackups, "audit-log-maxbackup", 100,
		"how many rotated audit logs are kept; 0 means all")
	return cmd
}

// setUpLogging makes all loggers of the process log to standard error through klog, like the Kubernetes libraries.
func setUpLogging(verbosity int) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(verbosity)) // a number is always valid
	log.SetLogger(klog.Background())
}

// runUp runs a control plane until ctx ends or it fails.
func runUp(ctx context.Context, out io.Writer, options controlplane.Options, cluster etcdCluster,
	encryption encryptionFlags) error {
	defer saveMemory()()
	start := time.Now()
	endEncryption, err := encryption.apply(&options)
	if err != nil {
		return err
	}
	defer endEncryption()
	inCluster, err := cluster.used()
	switch {
	case err != nil:
		return err
	case inCluster:
		store, err := cluster.open(ctx)
		if err != nil {
			return err
		}
		options.Storage, options.Shared = store, true
	case options.DataDir == "" && options.Snapshot == "":
		options.Storage = memory.New(memory.Options{CompressAfter: compressAfter})
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ready in %d ms at %s; try: kubectl --kubeconfig %s get namespaces\n",
		time.Since(start).Milliseconds(), plane.URL(), options.KubeconfigFile)
	<-plane.Done()
	return plane.Err()
}
