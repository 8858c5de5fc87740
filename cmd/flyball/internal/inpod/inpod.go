// Package inpod gives a program outside of pods what a pod has: the environment and the files by which client-go finds the
// API server, with a token of a service account that is renewed.
package inpod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Directory is where the program finds the files: client-go reads token and ca.crt here, and others read namespace.
//
//upstream:k8s.io/client-go/rest.InClusterConfig
const Directory = "/var/run/secrets/kubernetes.io/serviceaccount"

// rootCA is the ConfigMap with the certificate authority of a cluster. Every namespace has one.
const rootCA = "kube-root-ca.crt"

// Account is a service account.
type Account struct{ Namespace, Name string }

// ParseAccount parses NAMESPACE/NAME.
func ParseAccount(text string) (Account, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Account{}, fmt.Errorf("the service account %q must have the form NAMESPACE/NAME", text)
	}
	return Account{namespace, name}, nil
}

// String returns the account as NAMESPACE/NAME.
func (a Account) String() string { return a.Namespace + "/" + a.Name }

// Server is an API server as a pod finds it.
type Server struct{ Host, Port string }

// ServerOf returns the API server of a configuration. It returns an error if a pod could not reach the server, as pods
// know nothing but a host and a port.
func ServerOf(config *rest.Config) (Server, error) {
	u, _, err := rest.DefaultServerUrlFor(config)
	switch {
	case err != nil:
		return Server{}, err
	case u.Scheme != "https":
		return Server{}, fmt.Errorf("the API server at %s has no HTTPS", u)
	case strings.Trim(u.Path, "/") != "":
		return Server{}, fmt.Errorf("the URL %s of the API server has a path", u)
	case config.ServerName != "":
		return Server{}, fmt.Errorf("the certificate of the API server is for the name %s", config.ServerName)
	case hasProxy(config, u):
		return Server{}, errors.New("the kubeconfig has a proxy")
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return Server{u.Hostname(), port}, nil
}

// hasProxy reports whether a configuration itself, and not the environment, has a proxy for a URL.
func hasProxy(config *rest.Config, u *url.URL) bool {
	if config.Proxy == nil {
		return false
	}
	request := httpRequest(u)
	proxy, err := config.Proxy(request)
	return err == nil && proxy != nil
}

// Env returns the variables that a pod has for the Service kubernetes.
//
//upstream:pkg/kubelet/envvars.FromServices
func (s Server) Env() []string {
	address := "tcp://" + net.JoinHostPort(s.Host, s.Port)
	link := "KUBERNETES_PORT_" + s.Port + "_TCP"
	return []string{
		"KUBERNETES_SERVICE_HOST=" + s.Host, "KUBERNETES_SERVICE_PORT=" + s.Port, "KUBERNETES_SERVICE_PORT_HTTPS=" + s.Port,
		"KUBERNETES_PORT=" + address, link + "=" + address, link + "_PROTO=tcp", link + "_PORT=" + s.Port, link + "_ADDR=" + s.Host,
	}
}

// Foreign reports whether a variable, as NAME=value, is one by which a program would find another API server.
func Foreign(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return name == clientcmd.RecommendedConfigPathEnvVar || strings.HasPrefix(name, "KUBERNETES_SERVICE_") ||
		name == "KUBERNETES_PORT" || strings.HasPrefix(name, "KUBERNETES_PORT_")
}

// CertificateAuthority returns the certificates that verify the API server: the ones of the configuration or, as a pod
// has them, the ones of the cluster, by a client of the core group.
func CertificateAuthority(ctx context.Context, config *rest.Config, core rest.Interface, namespace string) ([]byte, error) {
	if !config.Insecure {
		if err := rest.LoadTLSFiles(config); err != nil {
			return nil, err
		}
		if len(config.CAData) > 0 {
			return config.CAData, nil
		}
	}
	m := &corev1.ConfigMap{}
	err := core.Get().Namespace(namespace).Resource("configmaps").Name(rootCA).Do(ctx).Into(m)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the namespace %s has no ConfigMap %s with the certificate authority of the cluster", namespace, rootCA)
	}
	if err != nil {
		return nil, err
	}
	return []byte(m.Data[corev1.ServiceAccountRootCAKey]), nil
}

// Kubeconfig returns a kubeconfig for the cluster of a context, with the token in a file. The context "" is the current
// one.
func Kubeconfig(content clientcmdapi.Config, context string, account Account, tokenFile string) ([]byte, error) {
	if context == "" {
		context = content.CurrentContext
	}
	if err := clientcmdapi.FlattenConfig(&content); err != nil {
		return nil, err
	}
	current := content.Contexts[context]
	if current == nil || content.Clusters[current.Cluster] == nil {
		return nil, fmt.Errorf("the kubeconfig has no cluster for the context %q", context)
	}
	const name = "pod"
	made := clientcmdapi.NewConfig()
	made.Clusters[name] = content.Clusters[current.Cluster]
	made.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	made.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: account.Namespace}
	made.CurrentContext = name
	return clientcmd.Write(*made)
}

// replace writes a file of a directory. Readers see the old content or the new one.
func replace(dir, name string, content []byte) error {
	f, err := os.CreateTemp(dir, "."+name+"-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error is returned
	}
	return err
}
