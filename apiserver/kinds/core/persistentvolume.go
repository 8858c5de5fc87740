package core

import (
	"context"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
	"flyball.dev/apiserver/kinds/podspec"
)

// PersistentVolumes describes the kind PersistentVolume.
//
//upstream:pkg/registry/core/persistentvolume.persistentvolumeStrategy
//upstream:pkg/registry/core/persistentvolume.persistentvolumeStatusStrategy
//upstream:pkg/registry/core/persistentvolume/storage.REST.ShortNames
//upstream:pkg/printers/internalversion.AddHandlers
func PersistentVolumes() kinds.Kind {
	return kinds.Of[*corev1.PersistentVolume]{
		Type: &corev1.PersistentVolume{}, List: &corev1.PersistentVolumeList{},
		Plural: "persistentvolumes", ShortNames: []string{"pv"}, Cluster: true, ReturnsDeleted: true,
		Name:    fieldrules.NameIsSubdomain,
		Default: defaultPersistentVolume,
		Prepare: func(_ context.Context, v, old *corev1.PersistentVolume) {
			fieldrules.DefaultValue(&v.Status.Phase, corev1.VolumePending)
			if old == nil {
				v.Status.LastPhaseTransitionTime = new(metav1.Now())
			}
		},
		PrepareStatus:  setPhaseTransitionTime,
		ValidateCreate: func(v *corev1.PersistentVolume) field.ErrorList { return validatePersistentVolume(v, nil) },
		Warnings:       volumeWarnings,
		ValidateUpdate: validatePersistentVolumeUpdate,
		Status:         true,
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Capacity", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["capacity"]),
			columns.Column("Access Modes", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["accessModes"]),
			columns.Column("Reclaim Policy", "string",
				corev1.PersistentVolumeSpec{}.SwaggerDoc()["persistentVolumeReclaimPolicy"]),
			columns.Column("Status", "string", corev1.PersistentVolumeStatus{}.SwaggerDoc()["phase"]),
			columns.Column("Claim", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["claimRef"]),
			columns.Column("StorageClass", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["storageClassName"]),
			columns.Column("VolumeAttributesClass", "string",
				corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeAttributesClassName"]),
			columns.Column("Reason", "string", corev1.PersistentVolumeStatus{}.SwaggerDoc()["reason"]),
			columns.Wide("VolumeMode", "string", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeMode"]),
		},
		Row: persistentVolumeRow,
	}
}

// persistentVolumeRow returns the cells of a volume in a table.
//
//upstream:pkg/printers/internalversion.printPersistentVolume
func persistentVolumeRow(v *corev1.PersistentVolume) []any {
	phase := string(v.Status.Phase)
	if v.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	claim := ""
	if c := v.Spec.ClaimRef; c != nil {
		claim = c.Namespace + "/" + c.Name
	}
	mode := "<unset>"
	if v.Spec.VolumeMode != nil {
		mode = string(*v.Spec.VolumeMode)
	}
	return []any{v.Spec.Capacity.Storage().String(), podspec.AccessCell(v.Spec.AccessModes),
		string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
		v.Spec.StorageClassName, columns.OrUnset(v.Spec.VolumeAttributesClassName), v.Status.Reason, mode}
}

// defaultPersistentVolume sets the defaults of a volume.
//
//upstream:pkg/apis/core/v1.SetDefaults_PersistentVolume
func defaultPersistentVolume(v *corev1.PersistentVolume) {
	s := &v.Spec
	fieldrules.DefaultValue(&v.Status.Phase, corev1.VolumePending)
	fieldrules.DefaultValue(&s.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	fieldrules.DefaultPointer(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	DefaultVolumeSource(s)
}

// DefaultVolumeSource sets the defaults of the source, and rounds up the capacity.
//
//upstream:pkg/apis/core/v1.SetObjectDefaults_PersistentVolume
func DefaultVolumeSource(s *corev1.PersistentVolumeSpec) {
	podspec.RoundUp(s.Capacity)
	if h := s.HostPath; h != nil {
		fieldrules.DefaultPointer(&h.Type, corev1.HostPathUnset)
	}
	if i := s.ISCSI; i != nil {
		fieldrules.DefaultValue(&i.ISCSIInterface, "default")
	}
	if r := s.RBD; r != nil {
		podspec.DefaultRBD(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	if a := s.AzureDisk; a != nil {
		podspec.DefaultAzureDisk(a)
	}
	if c := s.ScaleIO; c != nil {
		podspec.DefaultScaleIO(&c.StorageMode, &c.FSType)
	}
}

// validatePersistentVolume checks the spec of a volume. The old volume is nil on create.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolume
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeSpec
//upstream:pkg/apis/core/validation.validateVolumeNodeAffinity
func validatePersistentVolume(v, old *corev1.PersistentVolume) (errs field.ErrorList) {
	object := check.Object(&errs)
	spec, s := object.Child("spec"), &v.Spec
	podspec.Access(spec.Child("accessModes"), s.AccessModes, "")
	volumeCapacity(spec.Child("capacity"), s.Capacity)
	reclaim := spec.Child("persistentVolumeReclaimPolicy")
	check.OneOf(reclaim, s.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	check.OptionalOneOf(spec.Child("volumeMode"), s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	check.IfSet(spec.Child("storageClassName"), s.StorageClassName, check.DNSName)
	if a, required := s.NodeAffinity, spec.Child("nodeAffinity").Child("required"); a != nil {
		if a.Required == nil {
			required.Required("must specify required node constraints")
		} else {
			podspec.NodeSelector(required, a.Required,
				old != nil && old.Spec.NodeAffinity != nil && podspec.InvalidNodeLabels(old.Spec.NodeAffinity.Required))
		}
	}
	persistentSource(spec, &s.PersistentVolumeSource, s.NodeAffinity != nil, v.Name)
	check.Forbid(reclaim, s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" &&
		s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle, "may not be 'recycle' for a hostPath mount of '/'")
	_, mounted := v.Annotations[mountOptions]
	check.Forbid(object.Child("metadata").Child("annotations").Child(mountOptions), mounted && !mountable(&s.PersistentVolumeSource),
		"may not specify mount options for this volume type")
	attributesClass(spec, s)
	return errs
}

// mountOptions had the mount options of a volume before there was a field.
const mountOptions = corev1.MountOptionAnnotation

// mountable reports whether the annotation with mount options applies to a source.
//
//upstream:pkg/volume/validation.checkMountOption
func mountable(s *corev1.PersistentVolumeSource) bool {
	return s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil || s.Glusterfs != nil || s.NFS != nil || s.RBD != nil ||
		s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil || s.AzureFile != nil ||
		s.VsphereVolume != nil || s.AzureDisk != nil || s.PhotonPersistentDisk != nil
}

// volumeCapacity checks that the capacity has storage and no other resource.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeSpec
func volumeCapacity(at check.Field, list corev1.ResourceList) {
	if len(list) == 0 {
		at.Required("")
	}
	if _, ok := list[corev1.ResourceStorage]; !ok || len(list) > 1 {
		at.NotSupported(list, string(corev1.ResourceStorage))
	}
	for _, name := range fieldrules.SortedKeys(list) {
		item, q := at.Key(string(name)), list[name]
		storedQuantity(item, q)
		if q.Sign() <= 0 {
			item.Invalid(q.String(), "must be greater than zero")
		}
	}
}

// storedQuantity checks that an amount of storage is not negative.
//
//upstream:pkg/apis/core/validation.validateBasicResource
func storedQuantity(at check.Field, q resource.Quantity) {
	if q.Value() < 0 {
		at.Invalid(q.Value(), "must be a valid resource quantity")
	}
}

// attributesClass checks the name of the VolumeAttributesClass, which only CSI volumes can have.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeSpec
func attributesClass(spec check.Field, s *corev1.PersistentVolumeSpec) {
	class := s.VolumeAttributesClassName
	if class == nil {
		return
	}
	if *class == "" {
		spec.Child("volumeAttributesClassName").Required("an empty string is disallowed")
	} else {
		check.DNSName(spec.Child("volumeAttributesClassName"), *class)
	}
	if s.CSI == nil {
		spec.Child("csi").Required("has to be specified when using volumeAttributesClassName")
	}
}

// setPhaseTransitionTime sets the time of the last change of the phase, unless the client sets it.
//
//upstream:pkg/registry/core/persistentvolume.persistentvolumeStatusStrategy.PrepareForUpdate
func setPhaseTransitionTime(_ context.Context, v, old *corev1.PersistentVolume) {
	now, was := &v.Status, &old.Status
	switch unset := now.LastPhaseTransitionTime == nil; {
	case now.Phase == was.Phase && unset:
		now.LastPhaseTransitionTime = was.LastPhaseTransitionTime
	case now.Phase != was.Phase && (unset || now.LastPhaseTransitionTime.Equal(was.LastPhaseTransitionTime)):
		now.LastPhaseTransitionTime = new(metav1.Now())
	}
}

// ValidateInlineVolume checks the inline spec of a volume in a VolumeAttachment.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeSpec
func ValidateInlineVolume(at check.Field, s *corev1.PersistentVolumeSpec) {
	const inline = "in the context of inline volumes"
	check.Forbid(at.Child("claimRef"), s.ClaimRef != nil, "may not be specified "+inline)
	check.Forbid(at.Child("capacity"), len(s.Capacity) > 0, "may not be specified "+inline)
	if s.CSI == nil {
		at.Child("csi").Required("has to be specified " + inline)
	}
	reclaim, mode := s.PersistentVolumeReclaimPolicy, s.VolumeMode
	check.Forbid(at.Child("persistentVolumeReclaimPolicy"), reclaim != "" && reclaim != corev1.PersistentVolumeReclaimRetain,
		"may only be Retain "+inline)
	check.Forbid(at.Child("nodeAffinity"), s.NodeAffinity != nil, "may not be specified "+inline)
	check.Forbid(at.Child("storageClassName"), s.StorageClassName != "", "may not be specified "+inline)
	check.Forbid(at.Child("volumeMode"), mode != nil && *mode != corev1.PersistentVolumeFilesystem,
		"may not specify volumeMode other than Filesystem "+inline)
	podspec.Access(at.Child("accessModes"), s.AccessModes, "")
	persistentSource(at, &s.PersistentVolumeSource, false, "")
}

// persistentSource checks the source of a volume with that name. A volume has exactly one source. pinned says that the volume has
// a node affinity.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeSpec
//upstream:pkg/apis/core/validation.validateGlusterfsPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateRBDPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateCephFSPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateISCSIPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateCinderPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateFlexPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateAzureFilePV
//upstream:pkg/apis/core/validation.validateScaleIOPersistentVolumeSource
//upstream:pkg/apis/core/validation.validateLocalVolumeSource
//upstream:pkg/apis/core/validation.validateStorageOSPersistentVolumeSource
func persistentSource(volume check.Field, v *corev1.PersistentVolumeSource, pinned bool, name string) {
	sources := check.Union{{"hostPath", v.HostPath != nil}, {"gcePersistentDisk", v.GCEPersistentDisk != nil},
		{"awsElasticBlockStore", v.AWSElasticBlockStore != nil}, {"glusterfs", v.Glusterfs != nil}, {"flocker", v.Flocker != nil},
		{"nfs", v.NFS != nil}, {"rbd", v.RBD != nil}, {"quobyte", v.Quobyte != nil}, {"cephFS", v.CephFS != nil},
		{"iscsi", v.ISCSI != nil}, {"cinder", v.Cinder != nil}, {"fc", v.FC != nil}, {"flexVolume", v.FlexVolume != nil},
		{"azureFile", v.AzureFile != nil}, {"vsphereVolume", v.VsphereVolume != nil},
		{"photonPersistentDisk", v.PhotonPersistentDisk != nil}, {"portworxVolume", v.PortworxVolume != nil},
		{"azureDisk", v.AzureDisk != nil}, {"scaleIO", v.ScaleIO != nil}, {"local", v.Local != nil},
		{"storageos", v.StorageOS != nil}, {"csi", v.CSI != nil}}
	switch first, at := sources.First(), volume.Child(sources.First()); first {
	case "":
		volume.Required("must specify a volume type")
	case "hostPath":
		podspec.HostPath(at, v.HostPath)
	case "glusterfs":
		podspec.Glusterfs(at, v.Glusterfs.EndpointsName, v.Glusterfs.Path)
		switch namespace := v.Glusterfs.EndpointsNamespace; {
		case namespace == nil:
		case *namespace == "":
			at.Child("endpointsNamespace").Invalid("", "if the endpointnamespace is set, it must be a valid namespace name")
		default:
			check.DNSLabel(at.Child("endpointsNamespace"), *namespace)
		}
	case "rbd":
		podspec.Monitors(at, v.RBD.CephMonitors)
		check.Required(at.Child("image"), v.RBD.RBDImage)
	case "cephFS":
		podspec.Monitors(volume.Child("cephfs"), v.CephFS.Monitors)
	case "iscsi":
		c := v.ISCSI
		podspec.ISCSI(at, c.TargetPortal, c.IQN, c.Lun, c.InitiatorName, c.DiscoveryCHAPAuth || c.SessionCHAPAuth,
			c.SecretRef != nil, "must be valid format")
		if c.InitiatorName != nil && podspec.LongISCSI(name, c.TargetPortal) {
			at.Child("targetportal").Invalid(c.TargetPortal, podspec.LongISCSIMessage)
		}
		if c.SecretRef != nil {
			check.Required(at.Child("secretRef").Child("name"), c.SecretRef.Name)
		}
	case "cinder":
		check.Required(at.Child("volumeID"), v.Cinder.VolumeID)
		podspec.NamespacedSecret(at, v.Cinder.SecretRef)
	case "flexVolume": // below, as it is checked after another source too
	case "azureFile":
		check.Required(at.Child("secretName"), v.AzureFile.SecretName)
		check.Required(at.Child("shareName"), v.AzureFile.ShareName)
		check.Optional(at.Child("secretNamespace"), v.AzureFile.SecretNamespace, check.Required)
	case "scaleIO":
		podspec.ScaleIO(at, v.ScaleIO.Gateway, v.ScaleIO.System, v.ScaleIO.VolumeName)
	case "local":
		check.Required(at.Child("path"), v.Local.Path)
		if !pinned {
			volume.Child("nodeAffinity").Required("Local volume requires node affinity")
		}
		podspec.WithoutBacksteps(at.Child("path"), v.Local.Path)
	case "storageos":
		podspec.StorageOS(at, v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace)
		if ref := v.StorageOS.SecretRef; ref != nil {
			check.Required(at.Child("secretRef").Child("name"), ref.Name)
			check.Required(at.Child("secretRef").Child("namespace"), ref.Namespace)
		}
	case "csi":
		persistentCSI(at, v.CSI)
	default:
		podspec.SharedSource(volume, first, v)
	}
	others := false
	for _, s := range sources {
		if f := v.FlexVolume; s.Name == "flexVolume" && f != nil { // kube-apiserver allows it after another source
			podspec.FlexVolume(volume.Child("flexVolume"), f.Driver, f.Options)
		} else {
			check.Forbid(volume.Child(s.Name), s.Set && others, podspec.ManySources)
		}
		others = others || s.Set
	}
}

// persistentCSI checks the CSI source of a volume.
//
//upstream:pkg/apis/core/validation.validateCSIPersistentVolumeSource
func persistentCSI(at check.Field, c *corev1.CSIPersistentVolumeSource) {
	check.DriverName(at.Child("driver"), c.Driver)
	check.Required(at.Child("volumeHandle"), c.VolumeHandle)
	persistentSecret(at.Child("controllerPublishSecretRef"), c.ControllerPublishSecretRef)
	persistentSecret(at.Child("controllerExpandSecretRef"), c.ControllerExpandSecretRef)
	persistentSecret(at.Child("nodePublishSecretRef"), c.NodePublishSecretRef)
	persistentSecret(at.Child("nodeExpandSecretRef"), c.NodeExpandSecretRef)
}

//upstream:pkg/apis/core/validation.validatePVSecretReference
func persistentSecret(at check.Field, ref *corev1.SecretReference) {
	if ref != nil {
		check.Required(at.Child("name"), ref.Name)
		check.IfSet(at.Child("name"), ref.Name, check.DNSName)
		check.DNSLabel(at.Child("namespace"), ref.Namespace)
	}
}

// validatePersistentVolumeUpdate checks that the source does not change, nor the node affinity once it
// is set. An update may add the secret for the expansion of a CSI volume.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeUpdate
//upstream:pkg/apis/core/validation.validatePvNodeAffinity
func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := validatePersistentVolume(v, old)
	object := check.Object(&errs)
	now, was := v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if now.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		with := *now.CSI
		with.ControllerExpandSecretRef = nil
		now.CSI = &with
	}
	if !equality.Semantic(now, was) {
		object.Child("spec").Child("persistentvolumesource").Forbidden("spec.persistentvolumesource is immutable after creation\n" +
			diff.Diff(fieldrules.Internal(was), fieldrules.Internal(now)))
	}
	if old.Spec.NodeAffinity != nil &&
		!equality.Semantic(v.Spec.NodeAffinity, withStableLabels(old.Spec.NodeAffinity, v.Spec.NodeAffinity)) {
		object.Child("nodeAffinity").Invalid(fieldrules.Internal(v.Spec.NodeAffinity),
			apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA")
	}
	check.Forbid(object.Child("spec").Child("volumeAttributesClassName"),
		v.Spec.VolumeAttributesClassName == nil && old.Spec.VolumeAttributesClassName != nil, "update from non-nil value to nil is forbidden")
	check.Immutable(object.Child("volumeMode"), v.Spec.VolumeMode, old.Spec.VolumeMode)
	return errs
}

// stableLabels are the labels of nodes that have replaced others.
//
//upstream:pkg/apis/core/validation.betaToGALabel
var stableLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os": corev1.LabelOSStable, "beta.kubernetes.io/arch": corev1.LabelArchStable,
	corev1.LabelInstanceType: corev1.LabelInstanceTypeStable,
}

// withStableLabels returns the old affinity with the stable labels that the new one has in place of deprecated labels.
//
//upstream:pkg/apis/core/validation.getMaskNodeSelectorLabelChangeEqualities
func withStableLabels(old, now *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if old.Required == nil || now == nil || now.Required == nil ||
		len(old.Required.NodeSelectorTerms) != len(now.Required.NodeSelectorTerms) {
		return old
	}
	was := old.DeepCopy()
	rename := func(was, now []corev1.NodeSelectorRequirement) {
		for i := range was {
			if i < len(now) && stableLabels[was[i].Key] == now[i].Key {
				was[i].Key = now[i].Key
			}
		}
	}
	for i := range was.Required.NodeSelectorTerms {
		is, was := &now.Required.NodeSelectorTerms[i], &was.Required.NodeSelectorTerms[i]
		rename(was.MatchExpressions, is.MatchExpressions)
		rename(was.MatchFields, is.MatchFields)
	}
	return was
}

// volumeWarnings returns the warnings about the deprecated fields and annotations of a volume.
//
//upstream:pkg/api/persistentvolume.warningsForPersistentVolumeSpecAndMeta
func volumeWarnings(v, _ *corev1.PersistentVolume) []string {
	var warnings []string
	for _, old := range [...]struct{ key, message string }{
		{classAnnotation, `deprecated since v1.8; use "storageClassName" attribute instead`},
		{mountOptions, `deprecated since v1.31; use "mountOptions" attribute instead`},
	} {
		if _, ok := v.Annotations[old.key]; ok {
			warnings = append(warnings, fmt.Sprintf("metadata.annotations[%s]: %s", old.key, old.message))
		}
	}
	s := &v.Spec
	if s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "+
			"Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := s.NodeAffinity; a != nil && a.Required != nil {
		at := fieldrules.Spec.ChildField("nodeAffinity").Child("required", "nodeSelectorTerms")
		for i := range a.Required.NodeSelectorTerms {
			warnings = append(warnings, podspec.NodeTermWarnings(&a.Required.NodeSelectorTerms[i], false, at.Index(i))...)
		}
	}
	for _, source := range [...]struct {
		used          bool
		name, message string
	}{
		{s.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{s.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{s.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{s.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{s.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{s.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if source.used {
			warnings = append(warnings, "spec."+source.name+": "+source.message)
		}
	}
	return warnings
}
