package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// environment checks a container's variables and their sources.
//
//upstream:pkg/apis/core/validation.ValidateEnv
//upstream:pkg/apis/core/validation.ValidateEnvFrom
func environment(container check.Field, c *corev1.Container) {
	for i := range c.Env {
		at, v := container.Child("env").Index(i), &c.Env[i]
		check.Required(at.Child("name"), v.Name)
		variableName(at.Child("name"), v.Name)
		if v.ValueFrom != nil {
			variableSource(at.Child("valueFrom"), v)
		}
	}
	list := container.Child("envFrom")
	for i := range c.EnvFrom {
		at, from := list.Index(i), &c.EnvFrom[i]
		check.IfSet(at.Child("prefix"), from.Prefix, variableName)
		sources := 0
		if s := from.ConfigMapRef; s != nil {
			sources++
			sourceName(at.Child("configMapRef").Child("name"), s.Name)
		}
		if s := from.SecretRef; s != nil {
			sources++
			sourceName(at.Child("secretRef").Child("name"), s.Name)
		}
		switch {
		case sources == 0:
			list.Invalid("", "must specify one of: `configMapRef` or `secretRef`")
		case sources > 1:
			list.Invalid("", "may not have more than one field specified at a time")
		}
	}
}

// sourceName checks the name of an object with variables. As in kube-apiserver, the name may end with a dash.
//
//upstream:pkg/apis/core/validation.validateConfigMapEnvSource
//upstream:pkg/apis/core/validation.validateSecretEnvSource
func sourceName(at check.Field, name string) {
	if name == "" {
		at.Required("")
		return
	}
	check.Messages(at, name, fieldrules.NameIsSubdomain(name, true))
}

// variableName allows any printable name without "=".
func variableName(at check.Field, name string) {
	for i := range len(name) {
		if c := name[i]; (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			check.Valid(at, name, validation.IsRelaxedEnvVarName)
			return
		}
	}
}

// variableSource checks that the value of a variable has exactly one source, and the source.
//
//upstream:pkg/apis/core/validation.validateEnvVarValueFrom
func variableSource(at check.Field, v *corev1.EnvVar) {
	from, sources := v.ValueFrom, 0
	if r := from.FieldRef; r != nil {
		sources++
		fieldRef(at.Child("fieldRef"), r, variableFields)
	}
	if r := from.ResourceFieldRef; r != nil {
		sources++
		resourceFieldRef(at.Child("resourceFieldRef"), r, false)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		keyRef(at.Child("configMapKeyRef"), r.Name, r.Key)
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		keyRef(at.Child("secretKeyRef"), r.Name, r.Key)
	}
	if r := from.FileKeyRef; r != nil {
		sources++
		ref := at.Child("fileKeyRef")
		check.Required(ref.Child("key"), r.Key)
		variableName(ref.Child("key"), r.Key)
		check.DNSLabel(ref.Child("volumeName"), r.VolumeName)
		check.Required(ref.Child("path"), r.Path)
		WithoutBacksteps(ref.Child("path"), r.Path)
	}
	switch {
	case sources == 0:
		at.Invalid("", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case v.Value != "":
		at.Invalid("", "may not be specified when `value` is not empty")
	case sources > 1:
		at.Invalid("", "may not have more than one field specified at a time")
	}
}

//upstream:pkg/apis/core/validation.validateConfigMapKeySelector
//upstream:pkg/apis/core/validation.validateSecretKeySelector
func keyRef(at check.Field, name, key string) {
	check.DNSName(at.Child("name"), name)
	check.Required(at.Child("key"), key)
	check.IfSet(at.Child("key"), key, configMapKey)
}

func configMapKey(at check.Field, key string) { check.Valid(at, key, validation.IsConfigMapKey) }

var (
	// variableFields are the fields of a pod to which variables can refer.
	variableFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
		"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	// volumeFields are those to which files can refer.
	volumeFields = []string{"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
		"metadata.uid"}
)

// fieldRef checks a reference to a field of the pod itself.
//
//upstream:pkg/apis/core/validation.validateObjectFieldSelector
func fieldRef(at check.Field, r *corev1.ObjectFieldSelector, known []string) {
	path := at.Child("fieldPath")
	base, key, subscripted := subscript(r.FieldPath)
	switch {
	case r.APIVersion == "":
		at.Child("apiVersion").Required("")
	case r.FieldPath == "":
		path.Required("")
	case r.APIVersion != "v1":
		path.Invalid(r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)
	case subscripted && base == "metadata.annotations":
		check.Messages(path, key, validation.IsQualifiedName(strings.ToLower(key)))
	case subscripted && base == "metadata.labels":
		check.Valid(path, key, validation.IsQualifiedName)
	case subscripted:
		path.Invalid(base, "does not support subscript")
	case slices.Contains(known, r.FieldPath):
	case !slices.Contains(variableFields, r.FieldPath) && !slices.Contains(volumeFields, r.FieldPath):
		path.Invalid(r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath)
	default:
		path.NotSupported(r.FieldPath, known...)
	}
}

// subscript splits metadata.labels['key'] into the map and the key.
func subscript(path string) (string, string, bool) {
	base, rest, ok := strings.Cut(path, "['")
	key, end := strings.CutSuffix(rest, "']")
	return base, key, ok && end
}

// containerResources are the resources to which resourceFieldRef can refer.
var containerResources = []string{"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
	"requests.ephemeral-storage", "requests.memory"}

//upstream:pkg/apis/core/validation.validateContainerResourceFieldSelector
func resourceFieldRef(at check.Field, r *corev1.ResourceFieldSelector, volume bool) {
	switch {
	case volume && r.ContainerName == "":
		at.Child("containerName").Required("")
	case r.Resource == "":
		at.Child("resource").Required("")
	case !slices.Contains(containerResources, r.Resource) && !ofHugePages(r.Resource):
		at.Child("resource").NotSupported(r.Resource, containerResources...)
	}
	divisor(at, r)
}

//upstream:pkg/apis/core/validation.validContainerResourceDivisorForMemory
//upstream:pkg/apis/core/validation.validContainerResourceDivisorForCPU
var (
	byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}
	cpuDivisors  = []string{"1m", "1"}
)

// divisor checks the divisor of an amount, in which zero stands for one.
//
//upstream:pkg/apis/core/validation.validateContainerResourceDivisor
func divisor(at check.Field, r *corev1.ResourceFieldSelector) {
	allowed, separator, what := byteDivisors, ", ", ""
	switch {
	case r.Resource == "limits.cpu" || r.Resource == "requests.cpu":
		allowed, separator, what = cpuDivisors, " and ", "cpu"
	case r.Resource == "limits.memory" || r.Resource == "requests.memory":
		what = "memory"
	case r.Resource == "limits.ephemeral-storage" || r.Resource == "requests.ephemeral-storage":
		what = "local ephemeral storage"
	case ofHugePages(r.Resource):
		what = "hugepages"
	default:
		return
	}
	if !r.Divisor.IsZero() && !slices.Contains(allowed, r.Divisor.String()) {
		at.Child("divisor").Invalidf(r.Resource, "only divisor's values %s are supported with the %s resource",
			strings.Join(allowed, separator), what)
	}
}

// ofHugePages reports whether a resource in a field selector is an amount of huge pages.
func ofHugePages(resource string) bool {
	return strings.HasPrefix(resource, "limits.hugepages-") || strings.HasPrefix(resource, "requests.hugepages-")
}

// fileKeyVolumes checks that variables are only read from files in volumes of type emptyDir.
func fileKeyVolumes(spec check.Field, s *corev1.PodSpec) {
	volumes := indexVolumes(s.Volumes)
	for at, c := range each(s) {
		for i := range c.Env {
			if c.Env[i].ValueFrom == nil || c.Env[i].ValueFrom.FileKeyRef == nil {
				continue
			}
			name := c.Env[i].ValueFrom.FileKeyRef.VolumeName
			ref := at.in(spec).Child("env").Index(i).Child("valueFrom").Child("fileKeyRef").Child("volumeName")
			switch v := volumes.find(name); {
			case v == nil:
				ref.NotFound(name)
			case v.EmptyDir == nil:
				ref.Invalid(name, "referenced volume must be of type emptyDir")
			}
		}
	}
}
