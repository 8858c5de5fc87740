// Package envtest runs tests against a Kubernetes control plane that it starts in the process of the
// test: no binaries, no downloads and no other process. It has the API of controller-runtime's
// package of this name.
//
//	env := &envtest.Environment{CRDDirectoryPaths: []string{"../config/crd/bases"}, ErrorIfCRDPathMissing: true}
//	cfg, err := env.Start()
//	...
//	defer env.Stop()
//
// Any number of environments can run in a process, one after the other or at the same time. Go
// clients made of the configuration that Start returns stay in the process, unless module compat is
// linked; its host is a socket nevertheless, which kubectl and other programs reach with
// Environment.KubeConfig.
//
// What controller-runtime's package does with programs is done here as far as it applies: [APIServer]
// takes the flags of kube-apiserver; the paths and versions of binaries have no effect. The fields
// Controllers, DeletionDelay and InMemory, the method Reset, and what else is marked as Flyball's
// own, have no counterpart there.
//
// # Environment variables
//
//   - USE_EXISTING_CLUSTER=true uses the cluster of the current kubeconfig.
//   - KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT=true writes the log of the control plane's controllers to
//     standard error.
//   - FLYBALL_CONTROLLERS selects the controllers that run, in the syntax of kube-controller-manager's
//     flag --controllers, such as garbagecollector,namespace; * selects all, and none selects none. If it is not set,
//     or empty, [Environment] decides.
//   - KUBEBUILDER_CONTROLPLANE_START_TIMEOUT and KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT must be durations
//     and have no effect.
//   - TEST_ASSET_KUBECTL and KUBEBUILDER_ASSETS say where kubectl is; without them, and without
//     KubectlPath and BinaryAssetsDirectory, it is looked up in PATH.
//
// # Start
//
// [Environment.Start] refuses a second start. [Environment.connect] starts the control plane ([APIServer.Start]) with
// an administrator, or finds the existing cluster. The certificates of the webhooks come first
// ([WebhookInstallOptions.PrepWithoutInstalling]), then the definitions ([InstallCRDs]), and the webhooks last
// ([WebhookInstallOptions.Install]). A checkpoint of the result is the state for [Environment.Reset].
//
// The configurations are for the HTTPS server. Their WrapTransport keeps Go clients in the process, with the client
// certificate of the configuration, so a copy with other credentials is another user. As in controller-runtime, the
// package adds the types of apiextensions to client-go's scheme.Scheme.
package envtest
