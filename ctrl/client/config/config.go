// Package config finds out which API server a program talks to, and as whom.
//
// In this order, the first that is there is used:
//
//  1. the file that the flag --kubeconfig names,
//  2. the files that the environment variable KUBECONFIG names,
//  3. the service account, if the program runs in a pod,
//  4. ~/.kube/config.
//
// The configs limit no rates on the client's side: servers share themselves out
// fairly. To limit them, set QPS.
package config

import (
	"flag"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// KubeconfigFlagName is the name of the flag that names a kubeconfig file.
const KubeconfigFlagName = "kubeconfig"

// kubeconfigFlags are the flags of that name that programs may have parsed. The
// flag package's own set is one of them from the start: programs count on it.
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
		fs.String(KubeconfigFlagName, "", "path of the kubeconfig file; without it $KUBECONFIG, the pod's service account or ~/.kube/config is used")
	}
	kubeconfigFlags = append(kubeconfigFlags, fs.Lookup(KubeconfigFlagName))
}

// flagValue returns the file that a flag names, or "".
func flagValue() string {
	for _, f := range kubeconfigFlags {
		if v := f.Value.String(); v != "" {
			return v
		}
	}
	return ""
}

// GetConfig returns a config for the current context of the kubeconfig, or for
// the pod.
func GetConfig() (*rest.Config, error) {
	return GetConfigWithContext("")
}

// GetConfigWithContext is GetConfig for the named context of the kubeconfig; ""
// is the current one.
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
		// Without $HOME the rules do not know the home directory.
		u, err := user.Current()
		if err != nil {
			return nil, fmt.Errorf("finding the home directory: %w", err)
		}
		rules.Precedence = append(rules.Precedence, filepath.Join(u.HomeDir, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName))
	}
	cfg, err := fromFiles(rules, context)
	if err != nil && notInCluster != nil {
		err = fmt.Errorf("found no API server to talk to: %w (and as a pod: %w)", err, notInCluster)
	}
	return cfg, err
}

func fromFiles(rules *clientcmd.ClientConfigLoadingRules, context string) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
}

// GetConfigOrDie is GetConfig for programs that cannot go on without it: it says
// on standard error what is wrong and exits with status 1.
func GetConfigOrDie() *rest.Config {
	cfg, err := GetConfig()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubeconfig:", err)
		os.Exit(1)
	}
	return cfg
}
