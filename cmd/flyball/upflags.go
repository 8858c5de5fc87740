package main

import (
	"context"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flyball.dev/apiserver/auditlog"
	"flyball.dev/cmd/flyball/internal/images"
	"flyball.dev/controllers/nodeipam"
	"flyball.dev/controllers/pods"
	"flyball.dev/controlplane"
	"flyball.dev/ctrl/console"
	"flyball.dev/ctrl/manager"
	"flyball.dev/internal/kubeconfig"
)

// removedVersions is the help of the flag --removed-versions.
const removedVersions = "also serve policy/v1beta1 PodDisruptionBudgets, batch/v1beta1 CronJobs and " +
	"apiextensions.k8s.io/v1beta1 CustomResourceDefinitions, which Kubernetes has removed, for old clients"

// upFlags are the flags of "flyball up", and the options that they set.
type upFlags struct {
	options     controlplane.Options
	cluster     etcdCluster
	encryption  encryptionFlags
	nodes       nodeFlags
	ports       portFlags
	controllers controllerFlag
	etcdListen  string
	script      string
	stages      []string
	images      []string
	programs    []images.Image // of images
	console     bool
	verbosity   int
}

// add adds the flags to the command.
func (f *upFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addAccess(flags)
	f.addStorage(flags)
	f.addContainers(flags)
	f.controllers.add(cmd)
	addAudit(flags, &f.options.Audit)
	flags.BoolVar(&f.options.RemovedVersions, "removed-versions", false, removedVersions)
	flags.BoolVar(&f.options.WithoutFastPath, "without-fast-path", false,
		"serve every request with Kubernetes' handlers, and none with the server's own, which are faster; "+
			"if the responses differ, that is a bug of flyball")
	flags.BoolVar(&f.console, "console", false,
		"serve a page that shows what the controllers do, on a free port of loopback; the URL is printed to standard error")
	flags.IntVarP(&f.verbosity, "v", "v", 0,
		"log level: 0 logs errors and warnings, 1 also the start and stop of controllers, "+
			"2 also the events that they record; up to 10")
	cmd.MarkFlagsMutuallyExclusive("data-dir", "snapshot", "etcd-servers")
	cmd.MarkFlagsMutuallyExclusive("etcd-listen", "etcd-servers")
	refuseEmpty(flags, "kubeconfig", "data-dir", "etcd-servers", "etcd-servers-overrides", "etcd-prefix", "etcd-cafile", "etcd-certfile",
		"etcd-keyfile", "encryption-provider-config", "script", "snapshot", "listen", "apiserver-cert-extra-sans", "authorization-mode",
		"audit-policy-file", "audit-log-path", "audit-log-format")
}

// addAccess adds the flags that say where clients reach the server, and what they may do.
func (f *upFlags) addAccess(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.KubeconfigFile, "kubeconfig", kubeconfig.DefaultPath,
		"the file to write the administrator's kubeconfig to")
	flags.StringVar(&f.options.Listen, "listen", "127.0.0.1:0", "the address and port to listen on; port 0 takes a free one")
	flags.StringSliceVar(&f.options.ServingNames, "apiserver-cert-extra-sans", nil,
		"additional DNS names and IP addresses in the certificate of the server, such as the name of a load balancer")
	flags.StringVar(&f.options.AuthorizationMode, "authorization-mode", "RBAC",
		"how requests are authorized: RBAC, by roles and bindings; Node,RBAC, where a user system:node:NAME "+
			"in the group system:nodes may also do what the kubelet of that node may; or AlwaysAllow")
	f.ports.add(flags)
}

// addStorage adds the flags that say where objects are kept.
func (f *upFlags) addStorage(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.DataDir, "data-dir", "",
		"the directory that keeps all objects; by default there is none, and they are in memory alone")
	flags.StringVar(&f.options.Snapshot, "snapshot", "",
		"a file of flyball snapshot save to start from; changes are in memory alone")
	flags.StringVar(&f.etcdListen, "etcd-listen", "",
		"the URL to serve etcd's API at, such as http://127.0.0.1:2379 or unix:///run/etcd.sock; by default it is not served")
	f.cluster.add(flags)
	f.encryption.add(flags)
}

// addContainers adds the flags that say which nodes there are, and what containers do on them.
func (f *upFlags) addContainers(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.images, "image", nil,
		"NAME=COMMAND: containers with the image are the program, a process of this machine; may be repeated")
	flags.StringVar(&f.script, "script", "",
		"FILE: what containers do, in the language of the annotation "+pods.ScriptAnnotation)
	flags.StringArrayVar(&f.stages, "stages", nil,
		"FILE|DIR: manifests of kwok's Stages to begin with; may be repeated")
	f.nodes.add(flags)
	flags.TextVar(&f.options.Controllers.ClusterCIDR, "cluster-cidr", nodeipam.DefaultClusterCIDR,
		"the IPv4 network of the pods: each node without a podCIDR gets a /24 of it")
}

// addAudit adds the flags of the audit log.
func addAudit(flags *pflag.FlagSet, audit *auditlog.Options) {
	flags.StringVar(&audit.PolicyFile, "audit-policy-file", "", "the file that defines the audit policy")
	flags.StringVar(&audit.LogPath, "audit-log-path", "",
		"the file to log requests to, as the audit policy says; - is standard output")
	flags.StringVar(&audit.Format, "audit-log-format", "json", "the format of the audit log: json or legacy")
	flags.IntVar(&audit.MaxSize, "audit-log-maxsize", 100,
		"the size in megabytes at which the audit log is rotated; 0 means never")
	flags.IntVar(&audit.MaxAge, "audit-log-maxage", 366,
		"how many days a rotated audit log is kept; 0 means for ever")
	flags.IntVar(&audit.MaxBackups, "audit-log-maxbackup", 100,
		"how many rotated audit logs are kept; 0 means all")
}

// complete sets the options that files and lists of the flags describe.
func (f *upFlags) complete(ctx context.Context, flags *pflag.FlagSet) (err error) {
	if err := f.controllers.apply(flags, &f.options); err != nil {
		return err
	}
	if err := f.nodes.apply(ctx, flags, &f.options.Controllers.Pods); err != nil {
		return err
	}
	if f.options.Controllers.Stages, err = loadStages(f.stages); err != nil {
		return err
	}
	if f.options.Controllers.Pods.Script, err = loadScript(f.script); err != nil {
		return err
	}
	if err := f.ports.apply(&f.options); err != nil {
		return err
	}
	if f.console {
		f.options.Console = func() manager.Console { return console.New(console.Options{URLFile: console.DefaultURLFile}) }
	}
	f.programs, err = parseImages(f.images)
	return err
}
