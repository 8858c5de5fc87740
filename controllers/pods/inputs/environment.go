package inputs

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// searchPath is the search path of most images.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment returns the environment of a container, as NAME=value: the variables that most images have, the variables
// of the specification in their order, and the variables of services. The pod has its addresses in its status.
//
//upstream:pkg/kubelet.Kubelet.makeEnvironmentVariables
func Environment(pod *corev1.Pod, c *corev1.Container, r Reader) ([]string, error) {
	services, err := serviceVariables(pod, r)
	if err != nil {
		return nil, err
	}
	own, order, err := fromSources(c, r)
	if err != nil {
		return nil, err
	}
	for i := range c.Env {
		v := &c.Env[i]
		value, ok := expand(v.Value, own, services), true
		if v.Value == "" && v.ValueFrom != nil {
			if value, ok, err = valueFrom(pod, c, v.ValueFrom, r); err != nil {
				return nil, err
			}
		}
		if !ok {
			continue
		}
		if _, exists := own[v.Name]; !exists {
			order = append(order, v.Name)
		}
		own[v.Name] = value
	}
	size := 0
	var env []string
	add := func(name, value string) error {
		if size += len(name) + len(value) + 2; size > maxSize {
			return errTooLong
		}
		env = append(env, name+"="+value)
		return nil
	}
	for _, v := range [...]corev1.EnvVar{{Name: "HOME", Value: "/root"}, {Name: "HOSTNAME", Value: Hostname(pod)}, {Name: "PATH", Value: searchPath}} {
		if _, ok := own[v.Name]; !ok {
			order = append([]string{v.Name}, order...)
			own[v.Name] = v.Value
		}
	}
	for _, name := range order {
		if err := add(name, own[name]); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(services) {
		if _, ok := own[name]; !ok {
			if err := add(name, services[name]); err != nil {
				return nil, err
			}
		}
	}
	return env, nil
}

// Hostname returns the hostname of a pod.
//
//upstream:pkg/kubelet.Kubelet.GeneratePodHostNameAndDomain
func Hostname(pod *corev1.Pod) string {
	name := pod.Name
	switch {
	case pod.Spec.HostnameOverride != nil:
		name = *pod.Spec.HostnameOverride
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName
	case pod.Spec.Hostname != "":
		name = pod.Spec.Hostname
	}
	const maxHostname = 63
	if len(name) <= maxHostname {
		return name
	}
	return strings.TrimRight(name[:maxHostname], "-.")
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fromSources returns the variables of envFrom, with their names in order.
func fromSources(c *corev1.Container, r Reader) (own map[string]string, order []string, err error) {
	own = map[string]string{}
	for _, from := range c.EnvFrom {
		values := map[string]string{}
		optional := false
		switch {
		case from.ConfigMapRef != nil:
			var m *corev1.ConfigMap
			optional = ptr.Deref(from.ConfigMapRef.Optional, false)
			if m, err = r.ConfigMap(from.ConfigMapRef.Name); err == nil {
				values = m.Data
			}
		case from.SecretRef != nil:
			var s *corev1.Secret
			optional = ptr.Deref(from.SecretRef.Optional, false)
			if s, err = r.Secret(from.SecretRef.Name); err == nil {
				for key, value := range s.Data {
					values[key] = string(value)
				}
			}
		}
		if err != nil && !(optional && apierrors.IsNotFound(err)) {
			return nil, nil, err
		}
		for _, key := range sortedKeys(values) {
			name := from.Prefix + key
			if _, ok := own[name]; !ok {
				order = append(order, name)
			}
			own[name] = values[key]
		}
	}
	return own, order, nil
}

// valueFrom returns the value of a variable with a source. ok is false if the source is optional, and missing.
func valueFrom(pod *corev1.Pod, c *corev1.Container, from *corev1.EnvVarSource, r Reader) (value string, ok bool, err error) {
	missing := func(optional *bool, err error) (string, bool, error) {
		if ptr.Deref(optional, false) && (err == nil || apierrors.IsNotFound(err)) {
			return "", false, nil
		}
		return "", false, err
	}
	switch {
	case from.FieldRef != nil:
		value, err = Field(pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = Resource(from.ResourceFieldRef, c, r.Allocatable())
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		m, err := r.ConfigMap(ref.Name)
		if err != nil {
			return missing(ref.Optional, err)
		}
		if value, ok = m.Data[ref.Key]; !ok && !ptr.Deref(ref.Optional, false) {
			err = fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, pod.Namespace, ref.Name)
		}
		return value, ok, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := r.Secret(ref.Name)
		if err != nil {
			return missing(ref.Optional, err)
		}
		data, ok := s.Data[ref.Key]
		if !ok && !ptr.Deref(ref.Optional, false) {
			err = fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, pod.Namespace, ref.Name)
		}
		return string(data), ok, err
	case from.FileKeyRef != nil:
		ref := from.FileKeyRef
		data, err := r.File(ref.VolumeName, ref.Path)
		if err == nil {
			value, err = fileVariable(string(data), ref.Key)
		}
		if err != nil {
			return "", false, fmt.Errorf("couldn't parse env file: %w", err)
		}
		if value == "" && !ptr.Deref(ref.Optional, false) {
			return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
		}
		return value, value != "", nil
	}
	return "", true, nil
}

// fileVariable returns the value of a variable in a file with lines such as NAME='value', or "".
//
//upstream:pkg/kubelet/util/env.ParseEnv
func fileVariable(text, key string) (string, error) {
	for line := 1; text != ""; line++ {
		var first string
		first, text, _ = strings.Cut(text, "\n")
		first = strings.TrimLeft(strings.TrimSuffix(first, "\r"), " \t")
		if first == "" || first[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(first, "=")
		switch {
		case !ok:
			return "", fmt.Errorf("invalid environment variable format at line %d: missing '='", line)
		case strings.TrimRight(name, " \t") == "":
			return "", fmt.Errorf("invalid environment variable format at line %d: empty variable name", line)
		case strings.TrimRight(name, " \t") != name:
			return "", fmt.Errorf("invalid environment variable format at line %d: whitespace before '=' is not allowed", line)
		case strings.TrimLeft(value, " \t") != value:
			if name == key {
				return "", nil
			}
			continue
		case !strings.HasPrefix(value, "'"):
			return "", fmt.Errorf("invalid environment variable format at line %d: value must be enclosed in single quotes", line)
		}
		whole := value[1:]
		begin := line
		for !strings.Contains(whole, "'") {
			if text == "" {
				return "", fmt.Errorf("invalid environment variable format starting at line %d: unclosed single quote", begin)
			}
			first, text, _ = strings.Cut(text, "\n")
			whole += "\n" + first
			line++
		}
		quoted, after, _ := strings.Cut(whole, "'")
		if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
			return "", fmt.Errorf("invalid environment variable format at line %d: unexpected content after closing quote", line)
		}
		if name == key {
			return quoted, nil
		}
	}
	return "", nil
}

// serviceVariables returns the variables of the services: of the service kubernetes, and with EnableServiceLinks of all
// services in the namespace.
//
//upstream:pkg/kubelet.Kubelet.getServiceEnvVarMap
//upstream:pkg/kubelet/envvars.FromServices
func serviceVariables(pod *corev1.Pod, r Reader) (map[string]string, error) {
	services, err := r.Services()
	if err != nil {
		return nil, err
	}
	links := ptr.Deref(pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	found := map[string]*corev1.Service{}
	for i := range services {
		s := &services[i]
		master := s.Namespace == corev1.NamespaceDefault && s.Name == "kubernetes"
		_, taken := found[s.Name]
		switch {
		case s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0:
		case master && !taken, !master && links && s.Namespace == pod.Namespace:
			found[s.Name] = s
		}
	}
	variables := map[string]string{}
	for _, name := range sortedKeys(found) {
		addService(variables, found[name])
	}
	return variables, nil
}

// addService adds the variables of a service.
//
//upstream:pkg/kubelet/envvars.makeLinkVariables
func addService(variables map[string]string, s *corev1.Service) {
	upper := func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
	name, ip := upper(s.Name), s.Spec.ClusterIP
	variables[name+"_SERVICE_HOST"] = ip
	variables[name+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		number := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			variables[name+"_SERVICE_PORT_"+upper(p.Name)] = number
		}
		protocol := corev1.ProtocolTCP
		if p.Protocol != "" {
			protocol = p.Protocol
		}
		lower := strings.ToLower(string(protocol))
		url := lower + "://" + net.JoinHostPort(ip, number)
		if i == 0 {
			variables[name+"_PORT"] = url
		}
		prefix := name + "_PORT_" + number + "_" + strings.ToUpper(string(protocol))
		variables[prefix] = url
		variables[prefix+"_PROTO"] = lower
		variables[prefix+"_PORT"] = number
		variables[prefix+"_ADDR"] = ip
	}
}
