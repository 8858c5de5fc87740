package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// printIdentity is the main function of a client in a pod, which prints the result of a request to standard error. The
// client finds the API server as a program in a pod does or, where it is in none, by KUBECONFIG.
func printIdentity() (exitCode int) {
	config, err := restclient.InClusterConfig()
	if errors.Is(err, restclient.ErrNotInCluster) {
		config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{})
	fmt.Fprintln(os.Stderr, err)
	return 0
}
