package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// No kubelet supports the dynamic configuration any more. A write drops it, but a node that has it from before keeps it.

// prepareNode drops the source of the dynamic configuration.
//
//upstream:pkg/registry/core/node.nodeStrategy.PrepareForCreate
//upstream:pkg/registry/core/node.nodeStrategy.PrepareForUpdate
//upstream:pkg/registry/core/node.dropDisabledFields
func prepareNode(ctx context.Context, n, old *corev1.Node) {
	//lint:ignore SA1019 the API still has the field, and drops it
	if old == nil || old.Spec.ConfigSource == nil {
		n.Spec.ConfigSource = nil //lint:ignore SA1019 see above
	}
	dropNodeConfig(ctx, n, old)
}

// dropNodeConfig drops the status of the dynamic configuration.
//
//upstream:pkg/registry/core/node.nodeStatusStrategy.PrepareForUpdate
//upstream:pkg/registry/core/node.nodeStatusConfigInUse
func dropNodeConfig(_ context.Context, n, old *corev1.Node) {
	if old == nil || old.Status.Config == nil {
		n.Status.Config = nil
	}
}

// nodeConfig checks the source and the status of the dynamic configuration.
//
//upstream:pkg/apis/core/validation.validateNodeConfigStatus
func nodeConfig(n *corev1.Node) field.ErrorList {
	source := fieldrules.Spec.Child("configSource")
	//lint:ignore SA1019 the API still has the field, and validates it
	errs := nodeConfigSource(n.Spec.ConfigSource, &source, wantedConfigMap)
	s := n.Status.Config
	if s == nil {
		return errs
	}
	config := fieldrules.Status.Child("config")
	for _, part := range [...]struct {
		name   string
		source *corev1.NodeConfigSource
	}{{"assigned", s.Assigned}, {"active", s.Active}, {"lastKnownGood", s.LastKnownGood}} {
		at := config.Child(part.name)
		errs = append(errs, nodeConfigSource(part.source, &at, usedConfigMap)...)
	}
	return errs
}

// nodeConfigSource checks that a source, if there is one, is a ConfigMap that passes check.
//
//upstream:pkg/apis/core/validation.validateNodeConfigSourceSpec
//upstream:pkg/apis/core/validation.validateNodeConfigSourceStatus
//upstream:pkg/apis/core/validation.validateConfigMapNodeConfigSource
func nodeConfigSource(s *corev1.NodeConfigSource, w *fieldrules.Path,
	check func(c *corev1.ConfigMapNodeConfigSource, w *fieldrules.Path) field.ErrorList) field.ErrorList {
	switch {
	case s == nil:
		return nil
	case s.ConfigMap == nil:
		return field.ErrorList{field.Invalid(w.Field(), fieldrules.Internal(*s), "exactly one reference subfield must be non-nil")}
	}
	at := w.Child("configMap")
	errs := check(s.ConfigMap, &at)
	for _, part := range [...]struct {
		name, value string
		rule        func(string) []string
	}{
		{"namespace", s.ConfigMap.Namespace, validation.IsDNS1123Label},
		{"name", s.ConfigMap.Name, validation.IsDNS1123Subdomain},
		{"kubeletConfigKey", s.ConfigMap.KubeletConfigKey, validation.IsConfigMapKey},
	} {
		errs = append(errs, fieldrules.Required(part.value, &at, part.name)...)
		if part.value != "" {
			errs = append(errs, fieldrules.Invalid(part.rule(part.value), part.value, &at, part.name)...)
		}
	}
	return errs
}

// wantedConfigMap checks that a reference in a spec names no object in particular.
//
//upstream:pkg/apis/core/validation.validateConfigMapNodeConfigSourceSpec
func wantedConfigMap(c *corev1.ConfigMapNodeConfigSource, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if c.UID != "" {
		errs = append(errs, field.Forbidden(w.ChildField("uid"), "uid must not be set in spec"))
	}
	if c.ResourceVersion != "" {
		errs = append(errs, field.Forbidden(w.ChildField("resourceVersion"), "resourceVersion must not be set in spec"))
	}
	return errs
}

// usedConfigMap checks that a reference in a status names an object in one version.
//
//upstream:pkg/apis/core/validation.validateConfigMapNodeConfigSourceStatus
func usedConfigMap(c *corev1.ConfigMapNodeConfigSource, w *fieldrules.Path) field.ErrorList {
	return append(fieldrules.Required(string(c.UID), w, "uid"), fieldrules.Required(c.ResourceVersion, w, "resourceVersion")...)
}
