package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// volumes checks a pod's volumes, and returns those that are valid: a mount of another one is an error
// too.
//
//upstream:pkg/apis/core/validation.ValidateVolumes
func (r *rules) volumes(list check.Field, volumes []corev1.Volume) []corev1.Volume {
	valid := volumes[:0:0]            // shares the array until a volume is invalid
	var names fieldrules.Seen[string] // of the valid ones
	for i := range volumes {
		v, bad := &volumes[i], field.ErrorList(nil)
		at := list.Index(i).Into(&bad)
		r.volumeSource(at, v)
		check.DNSLabel(at.Child("name"), v.Name)
		if names.Has(v.Name) {
			at.Child("name").Duplicate(v.Name)
		}
		switch {
		case len(bad) > 0:
			list.Report(bad...)
			continue
		case len(valid) == i:
			valid = volumes[: i+1 : i+1]
		default:
			valid = append(valid, *v)
		}
		names.Add(v.Name)
	}
	if r.pod != nil && r.pod.Name != "" {
		r.createdClaims(list, volumes)
	}
	return valid
}

// createdClaims checks that no volume refers to a claim that another volume of the pod creates.
//
//upstream:pkg/apis/core/validation.ValidateVolumes
func (r *rules) createdClaims(list check.Field, volumes []corev1.Volume) {
	var created fieldrules.Seen[string]
	for i := range volumes {
		if volumes[i].Ephemeral != nil {
			created.Add(r.pod.Name + "-" + volumes[i].Name)
		}
	}
	for i := range volumes {
		if c := volumes[i].PersistentVolumeClaim; c != nil && created.Has(c.ClaimName) {
			list.Index(i).Child("persistentVolumeClaim").Child("claimName").Invalid(c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume")
		}
	}
}

// volumeIndex are the volumes of a pod, by name if there are many.
type volumeIndex struct {
	list   []corev1.Volume
	byName map[string]*corev1.Volume
}

func indexVolumes(list []corev1.Volume) volumeIndex {
	const few = 16
	x := volumeIndex{list: list}
	if len(list) > few {
		x.byName = make(map[string]*corev1.Volume, len(list))
		for i := range list {
			if v := &list[i]; x.byName[v.Name] == nil {
				x.byName[v.Name] = v
			}
		}
	}
	return x
}

// find returns the volume of that name, or nil.
func (x volumeIndex) find(name string) *corev1.Volume {
	if x.byName != nil {
		return x.byName[name]
	}
	for i := range x.list {
		if x.list[i].Name == name {
			return &x.list[i]
		}
	}
	return nil
}

// ManySources is the error for another source of a volume.
const ManySources = "may not specify more than 1 volume type"

// volumeSource checks the source of a volume. Only the first one is checked, in kube-apiserver's
// order.
//
//upstream:pkg/apis/core/validation.validateVolumeSource
func (r *rules) volumeSource(volume check.Field, of *corev1.Volume) {
	v := &of.VolumeSource
	sources := check.Union{{"emptyDir", v.EmptyDir != nil}, {"hostPath", v.HostPath != nil}, {"gitRepo", v.GitRepo != nil},
		{"gcePersistentDisk", v.GCEPersistentDisk != nil}, {"awsElasticBlockStore", v.AWSElasticBlockStore != nil},
		{"secret", v.Secret != nil}, {"nfs", v.NFS != nil}, {"iscsi", v.ISCSI != nil}, {"glusterfs", v.Glusterfs != nil},
		{"flocker", v.Flocker != nil}, {"persistentVolumeClaim", v.PersistentVolumeClaim != nil}, {"rbd", v.RBD != nil},
		{"cinder", v.Cinder != nil}, {"cephFS", v.CephFS != nil}, {"quobyte", v.Quobyte != nil}, {"downwarAPI", v.DownwardAPI != nil},
		{"fc", v.FC != nil}, {"flexVolume", v.FlexVolume != nil}, {"configMap", v.ConfigMap != nil}, {"azureFile", v.AzureFile != nil},
		{"vsphereVolume", v.VsphereVolume != nil}, {"photonPersistentDisk", v.PhotonPersistentDisk != nil},
		{"portworxVolume", v.PortworxVolume != nil}, {"azureDisk", v.AzureDisk != nil}, {"storageos", v.StorageOS != nil},
		{"projected", v.Projected != nil}, {"scaleIO", v.ScaleIO != nil}, {"csi", v.CSI != nil}, {"ephemeral", v.Ephemeral != nil},
		{"image", v.Image != nil}}
	switch first, at := sources.First(), volume.Child(sources.First()); first {
	case "":
		volume.Required("must specify a volume type")
	case "emptyDir":
		check.Forbid(at.Child("sizeLimit"), v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() < 0,
			"SizeLimit field must be a valid resource quantity")
	case "hostPath":
		HostPath(at, v.HostPath)
	case "gitRepo":
		check.Required(at.Child("repository"), v.GitRepo.Repository)
		localPath(at.Child("directory"), v.GitRepo.Directory)
	case "secret":
		check.Required(at.Child("secretName"), v.Secret.SecretName)
		files(at, v.Secret.Items, v.Secret.DefaultMode)
	case "iscsi":
		c := v.ISCSI
		ISCSI(at, c.TargetPortal, c.IQN, c.Lun, c.InitiatorName, c.DiscoveryCHAPAuth || c.SessionCHAPAuth,
			c.SecretRef != nil, "must be valid format starting with iqn, eui, or naa")
	case "glusterfs":
		Glusterfs(at, v.Glusterfs.EndpointsName, v.Glusterfs.Path)
	case "persistentVolumeClaim":
		check.Required(at.Child("claimName"), v.PersistentVolumeClaim.ClaimName)
	case "rbd":
		Monitors(at, v.RBD.CephMonitors)
		check.Required(at.Child("image"), v.RBD.RBDImage)
	case "cinder":
		check.Required(at.Child("volumeID"), v.Cinder.VolumeID)
		secretName(at, v.Cinder.SecretRef)
	case "cephFS":
		Monitors(volume.Child("cephfs"), v.CephFS.Monitors)
	case "downwarAPI": // so kube-apiserver calls a second source
		mode(volume.Child("downwardAPI").Child("defaultMode"), v.DownwardAPI.DefaultMode)
		downward(volume.Child("downwardAPI"), v.DownwardAPI.Items)
	case "flexVolume":
		FlexVolume(at, v.FlexVolume.Driver, v.FlexVolume.Options)
	case "configMap":
		check.Required(at.Child("name"), v.ConfigMap.Name)
		files(at, v.ConfigMap.Items, v.ConfigMap.DefaultMode)
	case "azureFile":
		check.Required(at.Child("secretName"), v.AzureFile.SecretName)
		check.Required(at.Child("shareName"), v.AzureFile.ShareName)
	case "storageos":
		StorageOS(at, v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace)
		secretName(at, v.StorageOS.SecretRef)
	case "projected":
		r.projected(at, v.Projected)
	case "scaleIO":
		ScaleIO(at, v.ScaleIO.Gateway, v.ScaleIO.System, v.ScaleIO.VolumeName)
	case "csi":
		csi(at, v.CSI)
	case "ephemeral":
		r.ephemeral(volume, of)
	case "image":
		check.OneOf(at.Child("pullPolicy"), v.Image.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
		if !r.emptyImages {
			check.Required(at.Child("reference"), v.Image.Reference)
		}
	default:
		SharedSource(volume, first, &corev1.PersistentVolumeSource{GCEPersistentDisk: v.GCEPersistentDisk,
			AWSElasticBlockStore: v.AWSElasticBlockStore, NFS: v.NFS, Flocker: v.Flocker, Quobyte: v.Quobyte, FC: v.FC,
			VsphereVolume: v.VsphereVolume, PhotonPersistentDisk: v.PhotonPersistentDisk, PortworxVolume: v.PortworxVolume,
			AzureDisk: v.AzureDisk})
	}
	others := false
	for _, s := range sources {
		check.Forbid(volume.Child(s.Name), s.Set && others, ManySources)
		others = others || s.Set
		if c := v.ISCSI; s.Name == "iscsi" && c != nil && c.InitiatorName != nil && LongISCSI(of.Name, c.TargetPortal) {
			volume.Child("name").Invalid(of.Name, LongISCSIMessage)
		}
	}
}

// ephemeral checks the claim that a volume creates.
//
//upstream:pkg/apis/core/validation.validateEphemeralVolumeSource
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeClaimTemplate
func (r *rules) ephemeral(volume check.Field, v *corev1.Volume) {
	claim := volume.Child("ephemeral").Child("volumeClaimTemplate")
	if v.Ephemeral.VolumeClaimTemplate == nil {
		claim.Required("")
		return
	}
	check.TemplateMetadata(claim.Child("metadata"), v.Ephemeral.VolumeClaimTemplate.ObjectMeta)
	ValidateClaim(claim.Child("spec"), &v.Ephemeral.VolumeClaimTemplate.Spec, nil)
	if r.pod == nil || r.pod.Name == "" || v.Name == "" {
		return
	}
	name := r.pod.Name + "-" + v.Name
	for _, m := range fieldrules.NameIsSubdomain(name, false) {
		volume.Child("name").Invalidf(v.Name, "PVC name %q: %v", name, m)
	}
}

// csi checks a csi source of a pod's volume.
//
//upstream:pkg/apis/core/validation.validateCSIVolumeSource
func csi(at check.Field, v *corev1.CSIVolumeSource) {
	check.DriverName(at.Child("driver"), v.Driver)
	if ref := v.NodePublishSecretRef; ref != nil {
		check.Required(at.Child("nodePublishSecretRef").Child("name"), ref.Name)
		check.IfSet(at.Child("name"), ref.Name, check.DNSName)
	}
}

// HostPath checks a hostPath volume source.
//
//upstream:pkg/apis/core/validation.validateHostPathVolumeSource
func HostPath(at check.Field, v *corev1.HostPathVolumeSource) {
	if v.Path == "" {
		at.Child("path").Required("")
		return
	}
	WithoutBacksteps(at.Child("path"), v.Path)
	check.OptionalOneOf(at.Child("type"), v.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev,
		corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate,
		corev1.HostPathSocket)
}

// files checks the files that are projected from an object's keys.
//
//upstream:pkg/apis/core/validation.validateConfigMapVolumeSource
//upstream:pkg/apis/core/validation.validateSecretVolumeSource
//upstream:pkg/apis/core/validation.validateKeyToPath
func files(source check.Field, items []corev1.KeyToPath, defaultMode *int32) {
	mode(source.Child("defaultMode"), defaultMode)
	for i := range items {
		at := source.Child("items").Index(i)
		check.Required(at.Child("key"), items[i].Key)
		fileName(at.Child("path"), items[i].Path)
		mode(at.Child("mode"), items[i].Mode)
	}
}

func fileName(at check.Field, p string) {
	check.Required(at, p)
	nonReserved(at, p)
}

// nonReserved checks that a path is relative and that none of its elements begins with "..".
//
//upstream:pkg/apis/core/validation.ValidateLocalNonReservedPath
func nonReserved(at check.Field, p string) {
	localPath(at, p)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		at.Invalid(p, "must not start with '..'")
	}
}

func mode(at check.Field, m *int32) {
	if m != nil && (*m < 0 || *m > 0o777) {
		at.Invalid(*m, "must be a number between 0 and 0777 (octal), both inclusive")
	}
}

// downward checks the files of a downwardAPI volume. The paths of kube-apiserver's errors do not have the index.
//
//upstream:pkg/apis/core/validation.validateDownwardAPIVolumeFile
func downward(at check.Field, items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		f := &items[i]
		fileName(at.Child("path"), f.Path)
		mode(at.Child("mode"), f.Mode)
		switch {
		case f.FieldRef != nil:
			fieldRef(at.Child("fieldRef"), f.FieldRef, volumeFields)
			if f.ResourceFieldRef != nil {
				at.Invalid("resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
			}
		case f.ResourceFieldRef != nil:
			resourceFieldRef(at.Child("resourceFieldRef"), f.ResourceFieldRef, true)
		default:
			at.Required("one of fieldRef and resourceFieldRef is required")
		}
	}
}
