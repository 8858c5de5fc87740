package kubeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"flyball.dev/internal/privatefile"
)

// extension is the name of the cluster extension in a kubeconfig that holds an Origin.
const extension = "flyball.dev/control-plane"

// probeTimeout limits how long a control plane may take to answer. A control plane that takes longer counts as running.
const probeTimeout = 2 * time.Second

// Origin identifies the process that wrote the kubeconfig of its own control plane. The control plane ends with the
// process.
type Origin struct {
	Program   string    `json:"program"`
	Directory string    `json:"directory"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
}

// NewOrigin returns the Origin of this process.
func NewOrigin() Origin {
	directory, _ := os.Getwd() // "" says nothing
	return Origin{Program: filepath.Base(os.Args[0]), Directory: directory, PID: os.Getpid(), Started: time.Now().UTC().Truncate(time.Second)}
}

// Mark adds the Origin to a cluster.
func (o Origin) Mark(cluster *clientcmdapi.Cluster) {
	raw, _ := json.Marshal(o) // strings, a number and a time of this century
	cluster.Extensions = map[string]runtime.Object{extension: &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}}
}

// originOf returns the Origin of a cluster. ok is false if the cluster has none.
func originOf(cluster *clientcmdapi.Cluster) (o Origin, ok bool) {
	if cluster == nil {
		return o, false
	}
	unknown, ok := cluster.Extensions[extension].(*runtime.Unknown)
	return o, ok && json.Unmarshal(unknown.Raw, &o) == nil
}

// CheckUnused returns an error if a file must not be replaced: it is the kubeconfig of a running control plane, or no
// control plane has written it. [Write] does not replace a device or a pipe.
func CheckUnused(file string) error {
	if !privatefile.Replaceable(file) {
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && len(bytes.TrimSpace(text)) == 0 {
		return nil // there is none
	}
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig that would be replaced: %w", err)
	}
	content, err := clientcmd.Load(text)
	if err != nil || !written(content) {
		return fmt.Errorf("the file %s is not the kubeconfig of a control plane of this runtime, and is not replaced: choose another file", file)
	}
	config, err := clientcmd.NewDefaultClientConfig(*content, nil).ClientConfig()
	if err != nil {
		return nil // no client can use it
	}
	if err := probe(config); err != nil && !os.IsTimeout(err) {
		return nil
	}
	return fmt.Errorf("the control plane of the kubeconfig %s runs already, at %s: use it (KUBECONFIG=%[1]s), stop it, or choose another file",
		file, config.Host)
}

// written reports whether a control plane has written a kubeconfig. Such a file has one cluster, either with an Origin
// or with the name that earlier versions used.
func written(content *clientcmdapi.Config) bool {
	for name, cluster := range content.Clusters {
		_, ok := originOf(cluster)
		return len(content.Clusters) == 1 && (ok || name == "flyball")
	}
	return false
}

// CheckAnswers returns an error if the control plane of a context has ended. content is a kubeconfig and config the
// configuration of the context; the context "" is the current one. CheckAnswers does not probe clusters without an
// Origin.
func CheckAnswers(content clientcmdapi.Config, name string, config *rest.Config) error {
	if _, ok := originOf(clusterOf(content, name)); !ok {
		return nil
	}
	err := probe(config)
	if err == nil || os.IsTimeout(err) {
		return nil
	}
	return Unreachable(content, name, config, err)
}

// Unreachable explains the error of a request to the cluster of a context. The usual reason is a kubeconfig that has
// outlived the process of its control plane. The context "" is the current one.
func Unreachable(content clientcmdapi.Config, name string, config *rest.Config, err error) error {
	cluster := clusterOf(content, name)
	if cluster == nil {
		return fmt.Errorf("the cluster at %s cannot be reached: %w", config.Host, err)
	}
	origin, ok := originOf(cluster)
	// Another control plane that does not know the user may listen at the address now.
	answered := apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsUnauthorized(err)
	if !ok || answered || os.IsTimeout(err) {
		return fmt.Errorf("the cluster at %s, of the kubeconfig %s, cannot be reached: %w", config.Host, cluster.LocationOfOrigin, err)
	}
	return fmt.Errorf("nobody answers at %s: the control plane of the kubeconfig %s was started by %s, "+
		"and seems to have ended; start it again, or use another kubeconfig (KUBECONFIG, --kubeconfig): %w",
		config.Host, cluster.LocationOfOrigin, origin, err)
}

// clusterOf returns the cluster of a context, or nil. The context "" is the current one.
func clusterOf(content clientcmdapi.Config, name string) *clientcmdapi.Cluster {
	if name == "" {
		name = content.CurrentContext
	}
	current := content.Contexts[name]
	if current == nil {
		return nil
	}
	return content.Clusters[current.Cluster]
}

// String returns a short description of the process.
func (o Origin) String() string {
	return fmt.Sprintf("%s in %s at %s (PID %d)", o.Program, o.Directory, o.Started.Format(time.RFC3339), o.PID)
}

// probe returns an error if no API server answers, or if the API server has another certificate authority or does not
// know the user.
func probe(config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Timeout = probeTimeout
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	response, err := client.Get(base.JoinPath("version").String())
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server answers %s", response.Status)
	}
	return nil
}
