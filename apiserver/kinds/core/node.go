package core

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// Nodes describes the kind Node.
//
//upstream:pkg/registry/core/node.nodeStrategy
//upstream:pkg/registry/core/node.nodeStatusStrategy
//upstream:pkg/registry/core/node.NodeToSelectableFields
//upstream:pkg/registry/core/node/storage.REST.ShortNames
//upstream:pkg/apis/core/v1.addConversionFuncs
//upstream:pkg/printers/internalversion.printNode
func Nodes(c *Connections) kinds.Kind {
	return kinds.Of[*corev1.Node]{
		Type: &corev1.Node{}, List: &corev1.NodeList{},
		Plural: "nodes", ShortNames: []string{"no"}, Cluster: true,
		Name:           fieldrules.NameIsSubdomain,
		Default:        defaultNode,
		Prepare:        prepareNode,
		Validate:       validateNode,
		Warnings:       nodeWarnings,
		ValidateUpdate: validateNodeUpdate,
		Status:         true,
		StatusOnCreate: true,
		PrepareStatus:  dropNodeConfig,
		ValidateStatus: validateNodeUpdate,
		Columns:        nodeColumns,
		Row:            nodeRow,
		Bare:           true,
		More:           nodeProxy(c),
		Fields: func(n *corev1.Node) fields.Set {
			return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
		},
	}
}

// defaultNode makes podCIDR and podCIDRs agree. The allocatable resources default to the capacity.
//
//upstream:pkg/apis/core/v1.Convert_v1_NodeSpec_To_core_NodeSpec
//upstream:pkg/apis/core/v1.SetDefaults_NodeStatus
//upstream:pkg/apis/core/v1.SetDefaults_ResourceList
func defaultNode(n *corev1.Node) {
	switch s := &n.Spec; {
	case s.PodCIDR == "" && len(s.PodCIDRs) > 0:
		s.PodCIDR = s.PodCIDRs[0]
	case s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR):
		s.PodCIDRs = []string{s.PodCIDR}
	}
	podspec.RoundUp(n.Status.Capacity)
	podspec.RoundUp(n.Status.Allocatable)
	if n.Status.Allocatable == nil && n.Status.Capacity != nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

// validateNode checks the annotations, the status, the taints and the CIDRs of a node.
//
//upstream:pkg/apis/core/validation.ValidateNode
func validateNode(n *corev1.Node) (errs field.ErrorList) {
	object := check.Object(&errs)
	metadata, cidrs := object.Child("metadata"), object.Child("spec").Child("podCIDRs")
	nodeAnnotations(metadata.Child("annotations"), n.Annotations)
	nodeResources(object.Child("status"), n)
	nodeTaints(metadata.Child("taints"), n.Spec.Taints) // kube-apiserver reports taints below metadata
	if swap := n.Status.NodeInfo.Swap; swap != nil {
		check.Optional(metadata.Child("nodeSwapStatus").Child("capacity"), swap.Capacity, check.Positive)
	}
	declaredFeatures(object.Child("status").Child("declaredFeatures"), n.Status.DeclaredFeatures)
	for i, cidr := range n.Spec.PodCIDRs {
		at := cidrs.Index(i)
		at.Report(validation.IsValidCIDRForLegacyField(at.Path.Field(), cidr, true, nil)...)
	}
	if s := n.Spec.PodCIDRs; len(s) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(s)
		if err != nil {
			cidrs.Report(field.InternalError(cidrs.Path.Field(),
				fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
		}
		if !dual || len(s) > 2 {
			cidrs.Invalid(s, "may specify no more than one CIDR for each IP family")
		}
	}
	return errs
}

// taintsAnnotation had the taints before there was a field.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

// nodeAnnotations checks the annotations that Kubernetes interprets.
//
//upstream:pkg/apis/core/validation.ValidateNodeSpecificAnnotations
//upstream:pkg/apis/core/validation.ValidateTaintsInNodeAnnotations
func nodeAnnotations(at check.Field, annotations map[string]string) {
	avoidPods(at, annotations)
	text := annotations[taintsAnnotation]
	if text == "" {
		return
	}
	var taints []corev1.Taint
	if err := json.Unmarshal([]byte(text), &taints); err != nil {
		at.Invalid(taintsAnnotation, fieldrules.InternalError(err))
		return
	}
	nodeTaints(at.Child(taintsAnnotation), taints)
}

// nodeTaints checks taints, and that they are unique.
//
//upstream:pkg/apis/core/validation.validateNodeTaints
func nodeTaints(list check.Field, taints []corev1.Taint) {
	type taint struct {
		key    string
		effect corev1.TaintEffect
	}
	var seen fieldrules.Seen[taint]
	for i := range taints {
		at, t := list.Index(i), &taints[i]
		check.LabelName(at.Child("key"), t.Key)
		if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
			at.Child("value").Invalid(t.Value, strings.Join(messages, ";"))
		}
		podspec.TaintEffect(at.Child("effect"), t.Effect)
		if !seen.Add(taint{t.Key, t.Effect}) {
			d := field.Duplicate(at.Path.Field(), fieldrules.Internal(*t))
			d.Detail = "taints must be unique by key and effect pair"
			at.Report(d)
		}
	}
}

// featureName matches the name of a feature of a node.
//
//upstream:pkg/apis/core/validation.nodeDeclaredFeatureRegexp
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// declaredFeatures checks the names of the features of a node, and their order.
//
//upstream:pkg/apis/core/validation.validateNodeDeclaredFeatures
//upstream:pkg/apis/core/validation.validateNodeDeclaredFeatureName
func declaredFeatures(list check.Field, names []string) {
	for i, name := range names {
		at := list.Index(i)
		switch {
		case len(name) > validation.DNS1123SubdomainMaxLength:
			at.Invalidf(name,
				"invalid feature name %q: must be no more than %d characters", name, validation.DNS1123SubdomainMaxLength)
		case !featureName.MatchString(name):
			at.Invalidf(name, "invalid feature name %q: must start with an UpperCamelCase "+
				"segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only "+
				"alphanumeric characters and slashes", name)
		}
		if i > 0 && name == names[i-1] {
			at.Duplicate(name)
		} else if i > 0 && name < names[i-1] {
			at.Invalid(name, "list must be sorted alphabetically")
		}
	}
}

// nodeAddresses checks that the addresses in the status are unique.
//
//upstream:pkg/apis/core/validation.ValidateNodeUpdate
func nodeAddresses(list check.Field, n *corev1.Node) {
	var seen fieldrules.Seen[corev1.NodeAddress]
	for i, a := range n.Status.Addresses {
		if !seen.Add(a) {
			list.Index(i).Duplicate(fieldrules.Internal(a))
		}
	}
}

// avoidPods checks the annotation that names the controllers of the pods to avoid.
//
//upstream:pkg/apis/core/validation.ValidateAvoidPodsInNodeAnnotations
//upstream:pkg/apis/core/validation.validatePreferAvoidPodsEntry
func avoidPods(at check.Field, annotations map[string]string) {
	text, ok := annotations[corev1.PreferAvoidPodsAnnotationKey]
	if !ok || text == "" {
		return
	}
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		at.Child("AvoidPods").Invalid(corev1.PreferAvoidPodsAnnotationKey, err.Error())
		return
	}
	for i, entry := range avoid.PreferAvoidPods {
		signature := at.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		switch c := entry.PodSignature.PodController; {
		case c == nil:
			signature.Required("")
		case c.Controller == nil || !*c.Controller:
			signature.Child("PodController").Child("Controller").Invalid(false, "must point to a controller")
		}
	}
}

// nodeResources checks the amounts in the status of a node.
//
//upstream:pkg/apis/core/validation.ValidateNodeResources
func nodeResources(status check.Field, n *corev1.Node) {
	for _, amounts := range [...]struct {
		name string
		list corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for _, name := range fieldrules.SortedKeys(amounts.list) {
			// Child, as in kube-apiserver: status.capacity.cpu
			check.ResourceQuantity(status.Child(amounts.name).Child(string(name)), name, amounts.list[name])
		}
	}
}

// validateNodeUpdate checks an update of a node or of its status. Some fields may change only once, or not at all.
//
//upstream:pkg/apis/core/validation.ValidateNodeUpdate
func validateNodeUpdate(n, old *corev1.Node) (errs field.ErrorList) {
	object := check.Object(&errs)
	metadata, spec, status := object.Child("metadata"), object.Child("spec"), object.Child("status")
	nodeAnnotations(metadata.Child("annotations"), n.Annotations)
	nodeResources(status, n)
	declaredFeatures(status.Child("declaredFeatures"), n.Status.DeclaredFeatures)
	nodeAddresses(status.Child("addresses"), n)
	nodeTaints(metadata.Child("taints"), n.Spec.Taints)
	check.Forbid(spec.Child("podCIDRs"), len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs),
		"node updates may not change podCIDR except from \"\" to valid")
	if was := old.Spec.ProviderID; was != "" && n.Spec.ProviderID != was {
		why := "field cannot be modified once set"
		if n.Spec.ProviderID == "" {
			why = "field cannot be cleared once set"
		}
		at := spec.Child("providerID")
		at.Report(field.Invalid(at.Path.Field(), nil, why).WithOrigin("update"))
	}
	check.Forbid(spec.Child("externalID"), n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID, "may not be updated")
	nodeConfig(object, n)
	return errs
}

// nodeColumns are the columns of nodes in a table.
//
//upstream:pkg/printers/internalversion.AddHandlers
var nodeColumns = []metav1.TableColumnDefinition{
	columns.NameColumn,
	columns.Column("Status", "string", "Whether the node is ready, and takes new pods."),
	columns.Column("Roles", "string", "The roles of the node, from its labels."),
	columns.AgeColumn,
	columns.Column("Version", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"]),
	columns.Wide("Internal-IP", "string", corev1.NodeStatus{}.SwaggerDoc()["addresses"]),
	columns.Wide("External-IP", "string", corev1.NodeStatus{}.SwaggerDoc()["addresses"]),
	columns.Wide("OS-Image", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["osImage"]),
	columns.Wide("Kernel-Version", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"]),
	columns.Wide("Container-Runtime", "string", corev1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"]),
}

// nodeRow returns the cells of a node in a table.
//
//upstream:pkg/printers/internalversion.printNode
func nodeRow(n *corev1.Node) []any {
	info := n.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, nodeStatusCell(n), roleCell(n), columns.Age(n.CreationTimestamp), info.KubeletVersion,
		addressCell(n, corev1.NodeInternalIP), addressCell(n, corev1.NodeExternalIP),
		orUnknown(info.OSImage), kernel, orUnknown(info.ContainerRuntimeVersion),
	}
}

// nodeStatusCell returns the readiness of a node, and whether pods can be scheduled on it.
//
//upstream:pkg/printers/internalversion.printNode
func nodeStatusCell(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// roleCell returns the roles in the labels of a node.
//
//upstream:pkg/printers/internalversion.findNodeRoles
func roleCell(n *corev1.Node) string {
	var roles []string
	for _, k := range fieldrules.SortedKeys(n.Labels) {
		if role, ok := strings.CutPrefix(k, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if v := n.Labels[k]; k == "kubernetes.io/role" && v != "" {
			roles = append(roles, v)
		}
	}
	slices.Sort(roles)
	return columns.OrNone(strings.Join(slices.Compact(roles), ","))
}

// addressCell returns the first address of a type.
//
//upstream:pkg/printers/internalversion.getNodeInternalIP
//upstream:pkg/printers/internalversion.getNodeExternalIP
func addressCell(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return columns.None
}

// orUnknown returns s, or <unknown> if s is empty.
func orUnknown(s string) string {
	if s == "" {
		return "<unknown>"
	}
	return s
}

// nodeWarnings returns the warnings for fields that have no effect.
//
//upstream:pkg/registry/core/node.nodeWarnings
func nodeWarnings(n, _ *corev1.Node) []string {
	var warnings []string
	//lint:ignore SA1019 the warning is about this field
	if n.Spec.ConfigSource != nil {
		warnings = append(warnings, "spec.configSource: the feature is removed")
	}
	if n.Spec.DoNotUseExternalID != "" {
		warnings = append(warnings, "spec.externalID: this field is deprecated, and is unused by Kubernetes")
	}
	at := fieldrules.Spec.ChildField("podCIDRs")
	for i, cidr := range n.Spec.PodCIDRs {
		warnings = append(warnings, fieldrules.CIDRWarnings(cidr, at.Index(i))...)
	}
	return warnings
}
