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
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
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
func validateNode(n *corev1.Node) field.ErrorList {
	errs := append(nodeAnnotations(n.Annotations), nodeResources(n)...)
	if len(n.Spec.Taints) > 0 {
		errs = append(errs, nodeTaints(n.Spec.Taints, &taintsPath)...)
	}
	if swap := n.Status.NodeInfo.Swap; swap != nil && swap.Capacity != nil {
		at := fieldrules.Metadata.Child("nodeSwapStatus") // as kube-apiserver reports it
		errs = append(errs, fieldrules.Positive(*swap.Capacity, &at, "capacity")...)
	}
	errs = append(errs, declaredFeatures(n.Status.DeclaredFeatures)...)
	for i, cidr := range n.Spec.PodCIDRs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(fieldrules.Spec.ChildField("podCIDRs").Index(i),
			cidr, true, nil)...)
	}
	if s := n.Spec.PodCIDRs; len(s) > 1 {
		dual, err := netutils.IsDualStackCIDRStrings(s)
		if err != nil {
			errs = append(errs, field.InternalError(fieldrules.Spec.ChildField("podCIDRs"),
				fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
		}
		if !dual || len(s) > 2 {
			errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("podCIDRs"), s,
				"may specify no more than one CIDR for each IP family"))
		}
	}
	return errs
}

// taintsPath is the path at which kube-apiserver reports taints.
var taintsPath = fieldrules.Metadata.Child("taints")

// taintsAnnotation had the taints before there was a field.
const taintsAnnotation = "scheduler.alpha.kubernetes.io/taints"

// nodeAnnotations checks the annotations that Kubernetes interprets.
//
//upstream:pkg/apis/core/validation.ValidateNodeSpecificAnnotations
//upstream:pkg/apis/core/validation.ValidateTaintsInNodeAnnotations
func nodeAnnotations(annotations map[string]string) field.ErrorList {
	errs := avoidPods(annotations)
	text := annotations[taintsAnnotation]
	if text == "" {
		return errs
	}
	at := fieldrules.Metadata.Child("annotations")
	var taints []corev1.Taint
	if err := json.Unmarshal([]byte(text), &taints); err != nil {
		return append(errs, field.Invalid(at.Field(), taintsAnnotation, fieldrules.InternalError(err)))
	}
	list := at.Child(taintsAnnotation)
	return append(errs, nodeTaints(taints, &list)...)
}

// nodeTaints checks taints, and that they are unique.
//
//upstream:pkg/apis/core/validation.validateNodeTaints
func nodeTaints(taints []corev1.Taint, list *fieldrules.Path) field.ErrorList {
	type taint struct {
		key    string
		effect corev1.TaintEffect
	}
	var errs field.ErrorList
	var seen fieldrules.Seen[taint]
	for i := range taints {
		t, at := &taints[i], list.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.ChildField("key"))...)
		if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
			errs = append(errs, field.Invalid(at.ChildField("value"), t.Value, strings.Join(messages, ";")))
		}
		podspec.TaintEffect(check.Field{Path: at.Child("effect")}.Into(&errs), t.Effect)
		if !seen.Add(taint{t.Key, t.Effect}) {
			d := field.Duplicate(at.Field(), fieldrules.Internal(*t))
			d.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, d)
		}
	}
	return errs
}

// featureName matches the name of a feature of a node.
//
//upstream:pkg/apis/core/validation.nodeDeclaredFeatureRegexp
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// declaredFeatures checks the names of the features of a node, and their order.
//
//upstream:pkg/apis/core/validation.validateNodeDeclaredFeatures
//upstream:pkg/apis/core/validation.validateNodeDeclaredFeatureName
func declaredFeatures(names []string) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Status.Child("declaredFeatures")
	for i, name := range names {
		at := list.Index(i)
		switch {
		case len(name) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs, field.Invalid(at.Field(), name, fmt.Sprintf("invalid feature name %q: must be no more than %d characters",
				name, validation.DNS1123SubdomainMaxLength)))
		case !featureName.MatchString(name):
			errs = append(errs, field.Invalid(at.Field(), name, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase "+
				"segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only "+
				"alphanumeric characters and slashes", name)))
		}
		if i > 0 && name == names[i-1] {
			errs = append(errs, field.Duplicate(at.Field(), name))
		} else if i > 0 && name < names[i-1] {
			errs = append(errs, field.Invalid(at.Field(), name, "list must be sorted alphabetically"))
		}
	}
	return errs
}

// nodeAddresses checks that the addresses in the status are unique.
//
//upstream:pkg/apis/core/validation.ValidateNodeUpdate
func nodeAddresses(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	list := fieldrules.Status.Child("addresses")
	var seen fieldrules.Seen[corev1.NodeAddress]
	for i, a := range n.Status.Addresses {
		if at := list.Index(i); !seen.Add(a) {
			errs = append(errs, field.Duplicate(at.Field(), fieldrules.Internal(a)))
		}
	}
	return errs
}

// avoidPods checks the annotation that names the controllers of the pods to avoid.
//
//upstream:pkg/apis/core/validation.ValidateAvoidPodsInNodeAnnotations
//upstream:pkg/apis/core/validation.validatePreferAvoidPodsEntry
func avoidPods(annotations map[string]string) field.ErrorList {
	text, ok := annotations[corev1.PreferAvoidPodsAnnotationKey]
	if !ok || text == "" {
		return nil
	}
	at := fieldrules.Metadata.ChildField("annotations")
	var avoid corev1.AvoidPods
	if err := json.Unmarshal([]byte(text), &avoid); err != nil {
		return field.ErrorList{field.Invalid(at.Child("AvoidPods"), corev1.PreferAvoidPodsAnnotationKey, err.Error())}
	}
	var errs field.ErrorList
	for i, entry := range avoid.PreferAvoidPods {
		signature := at.Child(corev1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		switch c := entry.PodSignature.PodController; {
		case c == nil:
			errs = append(errs, field.Required(signature, ""))
		case c.Controller == nil || !*c.Controller:
			errs = append(errs, field.Invalid(signature.Child("PodController", "Controller"), false, "must point to a controller"))
		}
	}
	return errs
}

// nodeResources checks the amounts in the status of a node.
//
//upstream:pkg/apis/core/validation.ValidateNodeResources
func nodeResources(n *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	for _, amounts := range [...]struct {
		name string
		list corev1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		of := fieldrules.Status.Child(amounts.name)
		for _, name := range fieldrules.SortedKeys(amounts.list) {
			at := of.Child(string(name))
			errs = append(errs, fieldrules.ResourceQuantity(name, amounts.list[name], &at)...)
		}
	}
	return errs
}

// validateNodeUpdate checks an update of a node or of its status. Some fields may change only once, or not at all.
//
//upstream:pkg/apis/core/validation.ValidateNodeUpdate
func validateNodeUpdate(n, old *corev1.Node) field.ErrorList {
	errs := append(nodeAnnotations(n.Annotations), nodeResources(n)...)
	errs = append(errs, declaredFeatures(n.Status.DeclaredFeatures)...)
	errs = append(errs, nodeAddresses(n)...)
	if len(n.Spec.Taints) > 0 {
		errs = append(errs, nodeTaints(n.Spec.Taints, &taintsPath)...)
	}
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("podCIDRs"),
			"node updates may not change podCIDR except from \"\" to valid"))
	}
	if was := old.Spec.ProviderID; was != "" && n.Spec.ProviderID != was {
		why := "field cannot be modified once set"
		if n.Spec.ProviderID == "" {
			why = "field cannot be cleared once set"
		}
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("providerID"), nil, why).WithOrigin("update"))
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("externalID"), "may not be updated"))
	}
	return append(errs, nodeConfig(n)...)
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
