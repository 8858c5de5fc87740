// Package config loads the configuration for access to an API server.
//
// The first of these that exists is used:
//
//  1. the file that the flag --kubeconfig names,
//  2. the files that the environment variable KUBECONFIG names,
//  3. the service account, if the program runs in a pod,
//  4. ~/.kube/config.
//
// A kubeconfig of the control plane of flyball up, or of a program that carries one, is an error if that
// control plane has ended. The API server of any other kubeconfig is not contacted.
//
// The configurations have no client-side rate limit, as servers have priority and fairness. To
// limit the rate, set QPS.
//
// The package adds a flag to flag.CommandLine, as in controller-runtime.
package config

import (
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"flyball.dev/internal/kubeconfig"
)

// KubeconfigFlagName is the name of the flag that names a kubeconfig file.
const KubeconfigFlagName = "kubeconfig"

// kubeconfigFlags are the flag sets with this flag. Importing the package registers it with
// flag.CommandLine, as programs expect.
var kubeconfigFlags []*flag.Flag

func init() {
	RegisterFlags(flag.CommandLine)
}

// RegisterFlags adds the flag --kubeconfig to fs, or to flag.CommandLine if fs is
// nil. If fs has a flag of that name already, that one is used. It must not be
// called while another goroutine uses this package.
func RegisterFlags(fs *flag.FlagSet) {
	if fs == nil {
		fs = flag.CommandLine
	}
	if fs.Lookup(KubeconfigFlagName) == nil {
		fs.String(KubeconfigFlagName, "", "Path to a kubeconfig. "+
			"Without it $KUBECONFIG, the in-cluster configuration or ~/.kube/config is used.")
	}
	kubeconfigFlags = append(kubeconfigFlags, fs.Lookup(KubeconfigFlagName))
}

// flagValue returns the value of the flag, or "".
func flagValue() string {
	for _, f := range kubeconfigFlags {
		if v := f.Value.String(); v != "" {
			return v
		}
	}
	return ""
}

// GetConfig returns the configuration of the current context of the kubeconfig, or of the pod.
func GetConfig() (*rest.Config, error) {
	return GetConfigWithContext("")
}

// GetConfigWithContext is GetConfig for the named context of the kubeconfig; "" is the current one.
func GetConfigWithContext(context string) (*rest.Config, error) {
	cfg, err := load(context, rest.InClusterConfig)
	if err != nil {
		return nil, err
	}
	if cfg.QPS == 0 {
		cfg.QPS = -1
	}
	return cfg, nil
}

// load returns the config of a context by the usual rules: --kubeconfig, $KUBECONFIG, in-cluster,
// $HOME/.kube/config.
func load(context string, inCluster func() (*rest.Config, error)) (*rest.Config, error) {
	if file := flagValue(); file != "" {
		return fromFiles(&clientcmd.ClientConfigLoadingRules{ExplicitPath: file}, context)
	}
	var notInCluster error
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		var cfg *rest.Config
		if cfg, notInCluster = inCluster(); notInCluster == nil {
			return cfg, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if os.Getenv("HOME") == "" {
		// Without $HOME, clientcmd does not find the home directory.
		u, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("could not determine the home directory: %w", err)
		}
		rules.Precedence = append(rules.Precedence,
			filepath.Join(u.HomeDir, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName))
	}
	cfg, err := fromFiles(rules, context)
	if files := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); files != "" && clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no configuration found in $%s, which is %s: %w", clientcmd.RecommendedConfigPathEnvVar, files, err)
	}
	if err != nil && notInCluster != nil {
		err = fmt.Errorf("no configuration found: %w (and not in-cluster: %w)", err, notInCluster)
	}
	return cfg, err
}

func fromFiles(rules *clientcmd.ClientConfigLoadingRules, context string) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	cfg, err := loaded.ClientConfig()
	if err != nil {
		return nil, err
	}
	content, err := loaded.RawConfig()
	if err == nil {
		err = kubeconfig.CheckAnswers(content, context, cfg)
	}
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// GetConfigOrDie is GetConfig that prints an error to standard error and exits with status 1.
func GetConfigOrDie() *rest.Config {
	cfg, err := GetConfig()
	if err != nil {
		fmt.Fprintln(os.Stderr, "unable to get kubeconfig:", err)
		os.Exit(1)
	}
	return cfg
}
