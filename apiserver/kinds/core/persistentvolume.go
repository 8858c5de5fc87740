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
func validatePersistentVolume(v, old *corev1.PersistentVolume) field.ErrorList {
	s := &v.Spec
	errs := append(podspec.Access(s.AccessModes, &fieldrules.Spec, ""), volumeCapacity(s.Capacity)...)
	errs = append(errs, fieldrules.OneOf(s.PersistentVolumeReclaimPolicy, &fieldrules.Spec,
		"persistentVolumeReclaimPolicy",
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	errs = append(errs, fieldrules.OptionalOneOf(s.VolumeMode, &fieldrules.Spec, "volumeMode",
		corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	if s.StorageClassName != "" {
		errs = append(errs, fieldrules.DNSName(s.StorageClassName, &fieldrules.Spec, "storageClassName")...)
	}
	if a := s.NodeAffinity; a != nil {
		at := fieldrules.Spec.Child("nodeAffinity")
		if a.Required == nil {
			errs = append(errs, field.Required(at.ChildField("required"), "must specify required node constraints"))
		} else {
			must := at.Child("required")
			any := old != nil && old.Spec.NodeAffinity != nil && podspec.InvalidNodeLabels(old.Spec.NodeAffinity.Required)
			errs = append(errs, podspec.NodeSelector(a.Required, any, &must)...)
		}
	}
	errs = append(errs, persistentSource(&s.PersistentVolumeSource, s.NodeAffinity != nil, v.Name, &fieldrules.Spec)...)
	if h := s.HostPath; h != nil && path.Clean(h.Path) == "/" &&
		s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("persistentVolumeReclaimPolicy"),
			"may not be 'recycle' for a hostPath mount of '/'"))
	}
	if _, ok := v.Annotations[mountOptions]; ok && !mountable(&s.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(fieldrules.Metadata.ChildField("annotations").Child(mountOptions),
			"may not specify mount options for this volume type"))
	}
	return append(errs, attributesClass(s)...)
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
func volumeCapacity(list corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	at := fieldrules.Spec.Child("capacity")
	if len(list) == 0 {
		errs = append(errs, field.Required(at.Field(), ""))
	}
	if _, ok := list[corev1.ResourceStorage]; !ok || len(list) > 1 {
		errs = append(errs, field.NotSupported(at.Field(), list, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range fieldrules.SortedKeys(list) {
		item, q := at.Key(string(name)), list[name]
		errs = append(errs, storedQuantity(q, &item)...)
		if q.Sign() <= 0 {
			errs = append(errs, field.Invalid(item.Field(), q.String(), "must be greater than zero"))
		}
	}
	return errs
}

// storedQuantity checks that an amount of storage is not negative.
//
//upstream:pkg/apis/core/validation.validateBasicResource
func storedQuantity(q resource.Quantity, fldPath *fieldrules.Path) field.ErrorList {
	if q.Value() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.Field(), q.Value(), "must be a valid resource quantity")}
}

// attributesClass checks the name of the VolumeAttributesClass, which only CSI volumes can have.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeSpec
func attributesClass(s *corev1.PersistentVolumeSpec) field.ErrorList {
	class := s.VolumeAttributesClassName
	if class == nil {
		return nil
	}
	var errs field.ErrorList
	if *class == "" {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("volumeAttributesClassName"),
			"an empty string is disallowed"))
	} else {
		errs = append(errs, fieldrules.DNSName(*class, &fieldrules.Spec, "volumeAttributesClassName")...)
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(fieldrules.Spec.ChildField("csi"),
			"has to be specified when using volumeAttributesClassName"))
	}
	return errs
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
func ValidateInlineVolume(s *corev1.PersistentVolumeSpec, w *fieldrules.Path) field.ErrorList {
	const inline = "in the context of inline volumes"
	var errs field.ErrorList
	if s.ClaimRef != nil {
		errs = append(errs, field.Forbidden(w.ChildField("claimRef"), "may not be specified "+inline))
	}
	if len(s.Capacity) > 0 {
		errs = append(errs, field.Forbidden(w.ChildField("capacity"), "may not be specified "+inline))
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(w.ChildField("csi"), "has to be specified "+inline))
	}
	if p := s.PersistentVolumeReclaimPolicy; p != "" && p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(w.ChildField("persistentVolumeReclaimPolicy"), "may only be Retain "+inline))
	}
	if s.NodeAffinity != nil {
		errs = append(errs, field.Forbidden(w.ChildField("nodeAffinity"), "may not be specified "+inline))
	}
	if s.StorageClassName != "" {
		errs = append(errs, field.Forbidden(w.ChildField("storageClassName"), "may not be specified "+inline))
	}
	if m := s.VolumeMode; m != nil && *m != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(w.ChildField("volumeMode"), "may not specify volumeMode other than Filesystem "+inline))
	}
	errs = append(errs, podspec.Access(s.AccessModes, w, "")...)
	return append(errs, persistentSource(&s.PersistentVolumeSource, false, "", w)...)
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
func persistentSource(v *corev1.PersistentVolumeSource, pinned bool, name string, fldPath *fieldrules.Path) field.ErrorList {
	s := podspec.Sources{W: fldPath}
	s.One("hostPath", v.HostPath != nil, func(at *fieldrules.Path) field.ErrorList { return podspec.HostPath(v.HostPath, at) })
	s.Shared(v, "gcePersistentDisk", "awsElasticBlockStore")
	s.One("glusterfs", v.Glusterfs != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := podspec.Glusterfs(v.Glusterfs.EndpointsName, v.Glusterfs.Path, at)
		switch namespace := v.Glusterfs.EndpointsNamespace; {
		case namespace == nil:
		case *namespace == "":
			errs = append(errs, field.Invalid(at.ChildField("endpointsNamespace"), "",
				"if the endpointnamespace is set, it must be a valid namespace name"))
		default:
			errs = append(errs, fieldrules.DNSLabel(*namespace, at, "endpointsNamespace")...)
		}
		return errs
	})
	s.Shared(v, "flocker", "nfs")
	s.One("rbd", v.RBD != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(podspec.Monitors(v.RBD.CephMonitors, at), fieldrules.Required(v.RBD.RBDImage, at, "image")...)
	})
	s.Shared(v, "quobyte")
	s.As("cephFS", "cephfs", v.CephFS != nil, func(at *fieldrules.Path) field.ErrorList {
		return podspec.Monitors(v.CephFS.Monitors, at)
	})
	s.One("iscsi", v.ISCSI != nil, func(at *fieldrules.Path) field.ErrorList {
		c := v.ISCSI
		errs := podspec.ISCSI(c.TargetPortal, c.IQN, c.Lun, c.InitiatorName, c.DiscoveryCHAPAuth || c.SessionCHAPAuth,
			c.SecretRef != nil, "must be valid format", at)
		if c.InitiatorName != nil && podspec.LongISCSI(name, c.TargetPortal) {
			errs = append(errs, field.Invalid(at.ChildField("targetportal"), c.TargetPortal, podspec.LongISCSIMessage))
		}
		if c.SecretRef != nil {
			secret := at.Child("secretRef")
			errs = append(errs, fieldrules.Required(c.SecretRef.Name, &secret, "name")...)
		}
		return errs
	})
	s.One("cinder", v.Cinder != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.Cinder.VolumeID, at, "volumeID"),
			podspec.NamespacedSecret(v.Cinder.SecretRef, at)...)
	})
	s.Shared(v, "fc")
	if f := v.FlexVolume; f != nil { // kube-apiserver does not count the sources before it
		at := fldPath.Child("flexVolume")
		s.N++
		s.Errs = append(s.Errs, podspec.FlexVolume(f.Driver, f.Options, &at)...)
	}
	s.One("azureFile", v.AzureFile != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := append(fieldrules.Required(v.AzureFile.SecretName, at, "secretName"),
			fieldrules.Required(v.AzureFile.ShareName, at, "shareName")...)
		if namespace := v.AzureFile.SecretNamespace; namespace != nil {
			errs = append(errs, fieldrules.Required(*namespace, at, "secretNamespace")...)
		}
		return errs
	})
	s.Shared(v, "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk")
	s.One("scaleIO", v.ScaleIO != nil, func(at *fieldrules.Path) field.ErrorList {
		return podspec.ScaleIO(v.ScaleIO.Gateway, v.ScaleIO.System, v.ScaleIO.VolumeName, at)
	})
	s.One("local", v.Local != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.Required(v.Local.Path, at, "path")
		if !pinned {
			errs = append(errs, field.Required(fldPath.ChildField("nodeAffinity"), "Local volume requires node affinity"))
		}
		return append(errs, podspec.WithoutBacksteps(v.Local.Path, at, "path")...)
	})
	s.One("storageos", v.StorageOS != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := podspec.StorageOS(v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace, at)
		if ref := v.StorageOS.SecretRef; ref != nil {
			secret := at.Child("secretRef")
			errs = append(errs, fieldrules.Required(ref.Name, &secret, "name")...)
			errs = append(errs, fieldrules.Required(ref.Namespace, &secret, "namespace")...)
		}
		return errs
	})
	s.One("csi", v.CSI != nil, func(at *fieldrules.Path) field.ErrorList { return persistentCSI(v.CSI, at) })
	if s.N == 0 {
		s.Errs = append(s.Errs, field.Required(fldPath.Field(), "must specify a volume type"))
	}
	return s.Errs
}

// persistentCSI checks the CSI source of a volume.
//
//upstream:pkg/apis/core/validation.validateCSIPersistentVolumeSource
//upstream:pkg/apis/core/validation.validatePVSecretReference
func persistentCSI(c *corev1.CSIPersistentVolumeSource, at *fieldrules.Path) field.ErrorList {
	errs := append(podspec.Driver(c.Driver, at), fieldrules.Required(c.VolumeHandle, at, "volumeHandle")...)
	for _, ref := range [...]struct {
		name   string
		secret *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if ref.secret == nil {
			continue
		}
		secret := at.Child(ref.name)
		if ref.secret.Name == "" {
			errs = append(errs, field.Required(secret.ChildField("name"), ""))
		} else {
			errs = append(errs, fieldrules.DNSName(ref.secret.Name, &secret, "name")...)
		}
		errs = append(errs, fieldrules.DNSLabel(ref.secret.Namespace, &secret, "namespace")...)
	}
	return errs
}

// validatePersistentVolumeUpdate checks that the source does not change, nor the node affinity once it
// is set. An update may add the secret for the expansion of a CSI volume.
//
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeUpdate
//upstream:pkg/apis/core/validation.validatePvNodeAffinity
func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := validatePersistentVolume(v, old)
	now, was := v.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if now.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		with := *now.CSI
		with.ControllerExpandSecretRef = nil
		now.CSI = &with
	}
	if !equality.Semantic(now, was) {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("persistentvolumesource"),
			"spec.persistentvolumesource is immutable after creation\n"+
				diff.Diff(fieldrules.Internal(was), fieldrules.Internal(now))))
	}
	if old.Spec.NodeAffinity != nil {
		if !equality.Semantic(v.Spec.NodeAffinity, withStableLabels(old.Spec.NodeAffinity, v.Spec.NodeAffinity)) {
			errs = append(errs, field.Invalid(fieldrules.Root.ChildField("nodeAffinity"), fieldrules.Internal(v.Spec.NodeAffinity),
				apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
		}
	}
	if v.Spec.VolumeAttributesClassName == nil && old.Spec.VolumeAttributesClassName != nil {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("volumeAttributesClassName"),
			"update from non-nil value to nil is forbidden"))
	}
	return append(errs, fieldrules.Immutable(v.Spec.VolumeMode, old.Spec.VolumeMode, &fieldrules.Root, "volumeMode")...)
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
