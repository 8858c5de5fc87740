package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
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
func nodeConfig(object check.Field, n *corev1.Node) {
	//lint:ignore SA1019 the API still has the field, and validates it
	nodeConfigSource(object.Child("spec").Child("configSource"), n.Spec.ConfigSource, wantedConfigMap)
	if s, config := n.Status.Config, object.Child("status").Child("config"); s != nil {
		nodeConfigSource(config.Child("assigned"), s.Assigned, usedConfigMap)
		nodeConfigSource(config.Child("active"), s.Active, usedConfigMap)
		nodeConfigSource(config.Child("lastKnownGood"), s.LastKnownGood, usedConfigMap)
	}
}

// nodeConfigSource checks that a source, if there is one, is a ConfigMap that passes rule.
//
//upstream:pkg/apis/core/validation.validateNodeConfigSourceSpec
//upstream:pkg/apis/core/validation.validateNodeConfigSourceStatus
//upstream:pkg/apis/core/validation.validateConfigMapNodeConfigSource
func nodeConfigSource(at check.Field, s *corev1.NodeConfigSource, rule func(check.Field, *corev1.ConfigMapNodeConfigSource)) {
	switch configMap := at.Child("configMap"); {
	case s == nil:
	case s.ConfigMap == nil:
		at.Invalid(fieldrules.Internal(*s), "exactly one reference subfield must be non-nil")
	default:
		rule(configMap, s.ConfigMap)
		requiredName(configMap.Child("namespace"), s.ConfigMap.Namespace, validation.IsDNS1123Label)
		requiredName(configMap.Child("name"), s.ConfigMap.Name, validation.IsDNS1123Subdomain)
		requiredName(configMap.Child("kubeletConfigKey"), s.ConfigMap.KubeletConfigKey, validation.IsConfigMapKey)
	}
}

func requiredName(at check.Field, name string, validate func(string) []string) {
	if name == "" {
		at.Required("")
	} else {
		check.Valid(at, name, validate)
	}
}

// wantedConfigMap checks that a reference in a spec names no object in particular.
//
//upstream:pkg/apis/core/validation.validateConfigMapNodeConfigSourceSpec
func wantedConfigMap(at check.Field, c *corev1.ConfigMapNodeConfigSource) {
	check.Forbid(at.Child("uid"), c.UID != "", "uid must not be set in spec")
	check.Forbid(at.Child("resourceVersion"), c.ResourceVersion != "", "resourceVersion must not be set in spec")
}

// usedConfigMap checks that a reference in a status names an object in one version.
//
//upstream:pkg/apis/core/validation.validateConfigMapNodeConfigSourceStatus
func usedConfigMap(at check.Field, c *corev1.ConfigMapNodeConfigSource) {
	check.Required(at.Child("uid"), c.UID)
	check.Required(at.Child("resourceVersion"), c.ResourceVersion)
}
