package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// environment checks a container's variables and their sources.
//
//upstream:pkg/apis/core/validation.ValidateEnv
//upstream:pkg/apis/core/validation.ValidateEnvFrom
func environment(c *corev1.Container, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	list := fldPath.Child("env")
	for i := range c.Env {
		v, at := &c.Env[i], list.Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(at.ChildField("name"), ""))
		} else {
			errs = append(errs, variableName(v.Name, &at, "name")...)
		}
		if v.ValueFrom != nil {
			from := at.Child("valueFrom")
			errs = append(errs, variableSource(v, &from)...)
		}
	}
	list = fldPath.Child("envFrom")
	for i := range c.EnvFrom {
		from, at := &c.EnvFrom[i], list.Index(i)
		if from.Prefix != "" {
			errs = append(errs, variableName(from.Prefix, &at, "prefix")...)
		}
		sources := 0
		if s := from.ConfigMapRef; s != nil {
			sources++
			ref := at.Child("configMapRef")
			errs = append(errs, sourceName(s.Name, &ref)...)
		}
		if s := from.SecretRef; s != nil {
			sources++
			ref := at.Child("secretRef")
			errs = append(errs, sourceName(s.Name, &ref)...)
		}
		switch {
		case sources == 0:
			errs = append(errs, field.Invalid(list.Field(), "", "must specify one of: `configMapRef` or `secretRef`"))
		case sources > 1:
			errs = append(errs, field.Invalid(list.Field(), "", "may not have more than one field specified at a time"))
		}
	}
	return errs
}

// sourceName checks the name of an object with variables. As in kube-apiserver, the name may end with a dash.
//
//upstream:pkg/apis/core/validation.validateConfigMapEnvSource
//upstream:pkg/apis/core/validation.validateSecretEnvSource
func sourceName(name string, fldPath *fieldrules.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fldPath.ChildField("name"), "")}
	}
	return fieldrules.Invalid(fieldrules.NameIsSubdomain(name, true), name, fldPath, "name")
}

// variableName allows any printable name without "=".
func variableName(name string, fldPath *fieldrules.Path, in string) field.ErrorList {
	for i := range len(name) {
		if c := name[i]; (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return fieldrules.Invalid(validation.IsRelaxedEnvVarName(name), name, fldPath, in)
		}
	}
	return nil
}

// variableSource checks that the value of a variable has exactly one source, and the source.
//
//upstream:pkg/apis/core/validation.validateEnvVarValueFrom
func variableSource(v *corev1.EnvVar, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	from, sources := v.ValueFrom, 0
	if r := from.FieldRef; r != nil {
		sources++
		at := fldPath.Child("fieldRef")
		errs = append(errs, fieldRef(r, &at, variableFields)...)
	}
	if r := from.ResourceFieldRef; r != nil {
		sources++
		at := fldPath.Child("resourceFieldRef")
		errs = append(errs, resourceFieldRef(r, &at, false)...)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		sources++
		at := fldPath.Child("configMapKeyRef")
		errs = append(errs, keyRef(r.Name, r.Key, &at)...)
	}
	if r := from.SecretKeyRef; r != nil {
		sources++
		at := fldPath.Child("secretKeyRef")
		errs = append(errs, keyRef(r.Name, r.Key, &at)...)
	}
	if r := from.FileKeyRef; r != nil {
		sources++
		at := fldPath.Child("fileKeyRef")
		if r.Key == "" {
			errs = append(errs, field.Required(at.ChildField("key"), ""))
		} else {
			errs = append(errs, variableName(r.Key, &at, "key")...)
		}
		errs = append(errs, fieldrules.DNSLabel(r.VolumeName, &at, "volumeName")...)
		errs = append(errs, fieldrules.Required(r.Path, &at, "path")...)
		errs = append(errs, WithoutBacksteps(r.Path, &at, "path")...)
	}
	switch {
	case sources == 0:
		errs = append(errs, field.Invalid(fldPath.Field(), "",
			"must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case v.Value != "":
		errs = append(errs, field.Invalid(fldPath.Field(), "", "may not be specified when `value` is not empty"))
	case sources > 1:
		errs = append(errs, field.Invalid(fldPath.Field(), "", "may not have more than one field specified at a time"))
	}
	return errs
}

//upstream:pkg/apis/core/validation.validateConfigMapKeySelector
//upstream:pkg/apis/core/validation.validateSecretKeySelector
func keyRef(name, key string, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.DNSName(name, fldPath, "name")
	if key == "" {
		return append(errs, field.Required(fldPath.ChildField("key"), ""))
	}
	return append(errs, fieldrules.Invalid(validation.IsConfigMapKey(key), key, fldPath, "key")...)
}

var (
	// variableFields are the fields of a pod to which variables can refer.
	variableFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
		"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"}
	// volumeFields are those to which files can refer.
	volumeFields = []string{"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations",
		"metadata.uid"}
)

// fieldRef checks a reference to a field of the pod itself.
//
//upstream:pkg/apis/core/validation.validateObjectFieldSelector
func fieldRef(r *corev1.ObjectFieldSelector, fldPath *fieldrules.Path, known []string) field.ErrorList {
	if r.APIVersion == "" {
		return field.ErrorList{field.Required(fldPath.ChildField("apiVersion"), "")}
	}
	if r.FieldPath == "" {
		return field.ErrorList{field.Required(fldPath.ChildField("fieldPath"), "")}
	}
	if r.APIVersion != "v1" {
		return field.ErrorList{field.Invalid(fldPath.ChildField("fieldPath"), r.FieldPath,
			fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", r.APIVersion))}
	}
	if base, key, ok := subscript(r.FieldPath); ok {
		switch base {
		case "metadata.annotations":
			return fieldrules.Invalid(validation.IsQualifiedName(strings.ToLower(key)), key, fldPath, "fieldPath")
		case "metadata.labels":
			return fieldrules.Invalid(validation.IsQualifiedName(key), key, fldPath, "fieldPath")
		default:
			return field.ErrorList{field.Invalid(fldPath.ChildField("fieldPath"), base, "does not support subscript")}
		}
	}
	if slices.Contains(known, r.FieldPath) {
		return nil
	}
	if !slices.Contains(variableFields, r.FieldPath) && !slices.Contains(volumeFields, r.FieldPath) {
		return field.ErrorList{field.Invalid(fldPath.ChildField("fieldPath"), r.FieldPath,
			"error converting fieldPath: field label not supported: "+r.FieldPath)}
	}
	return field.ErrorList{field.NotSupported(fldPath.ChildField("fieldPath"), r.FieldPath,
		slices.Sorted(slices.Values(known)))}
}

// subscript splits metadata.labels['key'] into the map and the key.
func subscript(path string) (string, string, bool) {
	base, rest, ok := strings.Cut(path, "['")
	key, end := strings.CutSuffix(rest, "']")
	return base, key, ok && end
}

// containerResources are the resources to which resourceFieldRef can refer.
var containerResources = []string{"limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu",
	"requests.memory", "requests.ephemeral-storage"}

//upstream:pkg/apis/core/validation.validateContainerResourceFieldSelector
func resourceFieldRef(r *corev1.ResourceFieldSelector, fldPath *fieldrules.Path, volume bool) field.ErrorList {
	var errs field.ErrorList
	switch {
	case volume && r.ContainerName == "":
		errs = append(errs, field.Required(fldPath.ChildField("containerName"), ""))
	case r.Resource == "":
		errs = append(errs, field.Required(fldPath.ChildField("resource"), ""))
	case !slices.Contains(containerResources, r.Resource) && !ofHugePages(r.Resource):
		errs = append(errs, field.NotSupported(fldPath.ChildField("resource"), r.Resource,
			slices.Sorted(slices.Values(containerResources))))
	}
	return append(errs, divisor(r, fldPath)...)
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
func divisor(r *corev1.ResourceFieldSelector, fldPath *fieldrules.Path) field.ErrorList {
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
		return nil
	}
	if r.Divisor.IsZero() || slices.Contains(allowed, r.Divisor.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField("divisor"), r.Resource,
		fmt.Sprintf("only divisor's values %s are supported with the %s resource", strings.Join(allowed, separator), what))}
}

// ofHugePages reports whether a resource in a field selector is an amount of huge pages.
func ofHugePages(resource string) bool {
	return strings.HasPrefix(resource, "limits.hugepages-") || strings.HasPrefix(resource, "requests.hugepages-")
}

// fileKeyVolumes checks that variables are only read from files in volumes of type emptyDir.
func fileKeyVolumes(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	volumes := indexVolumes(s.Volumes)
	each(s, fldPath, func(c *corev1.Container, at *fieldrules.Path) {
		for i := range c.Env {
			if c.Env[i].ValueFrom == nil || c.Env[i].ValueFrom.FileKeyRef == nil {
				continue
			}
			name := c.Env[i].ValueFrom.FileKeyRef.VolumeName
			path := func() *field.Path {
				return at.ChildField("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			}
			switch v := volumes.find(name); {
			case v == nil:
				errs = append(errs, field.NotFound(path(), name))
			case v.EmptyDir == nil:
				errs = append(errs, field.Invalid(path(), name, "referenced volume must be of type emptyDir"))
			}
		}
	})
	return errs
}
