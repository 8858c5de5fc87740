// Package inputs computes what kubelet gives to a container: its environment, its arguments, and the files of its
// volumes. Everything in it is a function of the pod and of the objects that a [Reader] returns.
package inputs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// Reader reads the objects that pods refer to. It returns errors of k8s.io/apimachinery/pkg/api/errors. The objects are
// shared and are not changed.
type Reader interface {
	// ConfigMap and Secret return an object of the pod's namespace.
	ConfigMap(name string) (*corev1.ConfigMap, error)
	Secret(name string) (*corev1.Secret, error)
	// Services returns the services of the pod's namespace, and those that every pod has in its environment.
	Services() ([]corev1.Service, error)
	// Token returns a token for the pod's service account.
	Token(p *corev1.ServiceAccountTokenProjection) ([]byte, error)
	// TrustBundle returns a ClusterTrustBundle, and TrustBundles all of a signer with labels that a selector matches.
	TrustBundle(name string) (*certificatesv1.ClusterTrustBundle, error)
	TrustBundles(signer string, selector labels.Selector) ([]certificatesv1.ClusterTrustBundle, error)
	// File returns the content of a file of a volume of the pod.
	File(volume, path string) ([]byte, error)
	// Allocatable returns the resources of the node.
	Allocatable() corev1.ResourceList
}

// maxSize is the maximum size of an environment or of arguments, in bytes, as in Linux.
const maxSize = 2 << 20

// errTooLong is the error of Linux for arguments or an environment above maxSize.
var errTooLong = errors.New("argument list too long")

// Arguments returns the command of a container with its arguments, with the variables of an environment expanded.
//
//upstream:pkg/kubelet/container.ExpandContainerCommandAndArgs
func Arguments(c *corev1.Container, env []string) ([]string, error) {
	variables := make(map[string]string, len(env))
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		variables[name] = value
	}
	size := 0
	var all []string
	for _, list := range [][]string{c.Command, c.Args} {
		for _, arg := range list {
			arg = expand(arg, variables)
			if size += len(arg) + 1; size > maxSize {
				return nil, errTooLong
			}
			all = append(all, arg)
		}
	}
	return all, nil
}

// expand replaces $(NAME) by a variable, and $$ by $. A reference to a variable that does not exist stays. The result is
// cut off above maxSize.
//
//upstream:third_party/forked/golang/expansion.Expand
func expand(s string, variables ...map[string]string) string {
	var b strings.Builder
	for b.Len() <= maxSize {
		text, rest, ok := strings.Cut(s, "$")
		b.WriteString(text)
		if !ok {
			break
		}
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			s = rest[1:]
		case strings.HasPrefix(rest, "(") && closed:
			b.WriteString(lookup(name, variables))
			s = after
		default:
			b.WriteByte('$')
			s = rest
		}
	}
	return b.String()
}

// lookup returns the value of a variable in the first map that has it, or a reference to it.
func lookup(name string, variables []map[string]string) string {
	for _, m := range variables {
		if value, ok := m[name]; ok {
			return value
		}
	}
	return "$(" + name + ")"
}

// Field returns a field of a pod, for the downward API.
//
//upstream:pkg/fieldpath.ExtractFieldPathAsString
//upstream:pkg/kubelet.Kubelet.podFieldSelectorRuntimeValue
func Field(pod *corev1.Pod, path string) (string, error) {
	if name, key, ok := strings.Cut(strings.TrimSuffix(path, "']"), "['"); ok && strings.HasSuffix(path, "']") {
		switch name {
		case "metadata.annotations":
			return pod.Annotations[key], nil
		case "metadata.labels":
			return pod.Labels[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		var ips []string
		for _, ip := range pod.Status.HostIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		var ips []string
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v", path)
}

// formatMap returns a map with a line for each key, sorted.
//
//upstream:pkg/fieldpath.FormatMap
func formatMap(m map[string]string) string {
	var lines []string
	for _, key := range sortedKeys(m) {
		lines = append(lines, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(lines, "\n")
}

// Resource returns a resource of a container, for the downward API. Limits that are not set are the node's.
//
//upstream:pkg/api/v1/resource.ExtractContainerResourceValue
//upstream:pkg/api/v1/resource.MergeContainerResourceLimits
func Resource(s *corev1.ResourceFieldSelector, c *corev1.Container, node corev1.ResourceList) (string, error) {
	divisor := s.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	kind, name, _ := strings.Cut(s.Resource, ".")
	list := c.Resources.Requests
	if kind == "limits" {
		list = c.Resources.Limits
	} else if kind != "requests" {
		return "", fmt.Errorf("unsupported container resource : %v", s.Resource)
	}
	quantity, ok := list[corev1.ResourceName(name)]
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		if kind == "limits" && (!ok || quantity.IsZero()) {
			quantity = node[corev1.ResourceName(name)]
		}
	default:
		if !strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) {
			return "", fmt.Errorf("unsupported container resource : %v", s.Resource)
		}
	}
	value, by := float64(quantity.Value()), float64(divisor.Value())
	if name == string(corev1.ResourceCPU) {
		value, by = float64(quantity.MilliValue()), float64(divisor.MilliValue())
	}
	return strconv.FormatInt(int64(math.Ceil(value/by)), 10), nil
}
