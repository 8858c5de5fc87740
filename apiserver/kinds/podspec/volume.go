package podspec

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// volumes checks a pod's volumes, and returns those that are valid: a mount of another one is an error
// too.
//
//upstream:pkg/apis/core/validation.ValidateVolumes
func (r *rules) volumes(s *corev1.PodSpec, fldPath *fieldrules.Path) ([]corev1.Volume, field.ErrorList) {
	var errs field.ErrorList
	valid := s.Volumes                // shared until one is invalid
	var names fieldrules.Seen[string] // of the valid ones
	list := fldPath.Child("volumes")
	for i := range s.Volumes {
		v, at := &s.Volumes[i], list.Index(i)
		if len(errs) == 0 {
			valid = s.Volumes[:i:i]
		}
		bad := append(r.volumeSource(v, &at), fieldrules.DNSLabel(v.Name, &at, "name")...)
		if names.Has(v.Name) {
			bad = append(bad, field.Duplicate(at.ChildField("name"), v.Name))
		}
		if len(bad) == 0 {
			names.Add(v.Name)
		}
		switch {
		case len(bad) > 0:
			errs = append(errs, bad...)
		case len(errs) > 0:
			valid = append(valid, *v)
		default:
			valid = s.Volumes[:i+1]
		}
	}
	if r.pod != nil && r.pod.Name != "" {
		errs = append(errs, r.createdClaims(s.Volumes, &list)...)
	}
	return valid, errs
}

// createdClaims checks that no volume refers to a claim that another volume of the pod creates.
//
//upstream:pkg/apis/core/validation.ValidateVolumes
func (r *rules) createdClaims(volumes []corev1.Volume, list *fieldrules.Path) field.ErrorList {
	var created fieldrules.Seen[string]
	for i := range volumes {
		if volumes[i].Ephemeral != nil {
			created.Add(r.pod.Name + "-" + volumes[i].Name)
		}
	}
	var errs field.ErrorList
	for i := range volumes {
		if c := volumes[i].PersistentVolumeClaim; c != nil && created.Has(c.ClaimName) {
			at := list.Index(i)
			errs = append(errs, field.Invalid(at.ChildField("persistentVolumeClaim").Child("claimName"), c.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return errs
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

// Sources counts the sources of a volume, which must have exactly one, and checks the first.
type Sources struct {
	W    *fieldrules.Path
	N    int
	Errs field.ErrorList
}

// One counts the source of that name if it is set.
func (s *Sources) One(name string, set bool, check func(at *fieldrules.Path) field.ErrorList) {
	s.As(name, name, set, check)
}

// As is One for a source that kube-apiserver's errors call by two names: more than one source, and
// the errors in it.
func (s *Sources) As(duplicate, name string, set bool, check func(at *fieldrules.Path) field.ErrorList) {
	if !set {
		return
	}
	if s.N++; s.N > 1 {
		s.Errs = append(s.Errs, field.Forbidden(s.W.ChildField(duplicate), "may not specify more than 1 volume type"))
		return
	}
	at := s.W.Child(name)
	s.Errs = append(s.Errs, check(&at)...)
}

// volumeSource checks the source of a volume. Only the first one is checked, in kube-apiserver's
// order.
//
//upstream:pkg/apis/core/validation.validateVolumeSource
func (r *rules) volumeSource(volume *corev1.Volume, fldPath *fieldrules.Path) field.ErrorList {
	v := &volume.VolumeSource
	s := Sources{W: fldPath}
	s.One("emptyDir", v.EmptyDir != nil, func(at *fieldrules.Path) field.ErrorList { return emptyDir(v.EmptyDir, at) })
	s.One("hostPath", v.HostPath != nil, func(at *fieldrules.Path) field.ErrorList { return HostPath(v.HostPath, at) })
	shared := &corev1.PersistentVolumeSource{GCEPersistentDisk: v.GCEPersistentDisk,
		AWSElasticBlockStore: v.AWSElasticBlockStore, NFS: v.NFS, Flocker: v.Flocker, Quobyte: v.Quobyte, FC: v.FC,
		VsphereVolume: v.VsphereVolume, PhotonPersistentDisk: v.PhotonPersistentDisk, PortworxVolume: v.PortworxVolume,
		AzureDisk: v.AzureDisk}
	s.One("gitRepo", v.GitRepo != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.GitRepo.Repository, at, "repository"),
			localPath(v.GitRepo.Directory, at, "directory")...)
	})
	s.Shared(shared, "gcePersistentDisk", "awsElasticBlockStore")
	s.One("secret", v.Secret != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.Required(v.Secret.SecretName, at, "secretName")
		return append(errs, files(v.Secret.Items, v.Secret.DefaultMode, at)...)
	})
	s.Shared(shared, "nfs")
	s.One("iscsi", v.ISCSI != nil, func(at *fieldrules.Path) field.ErrorList {
		c := v.ISCSI
		return ISCSI(c.TargetPortal, c.IQN, c.Lun, c.InitiatorName, c.DiscoveryCHAPAuth || c.SessionCHAPAuth,
			c.SecretRef != nil, "must be valid format starting with iqn, eui, or naa", at)
	})
	if c := v.ISCSI; c != nil && c.InitiatorName != nil && LongISCSI(volume.Name, c.TargetPortal) {
		s.Errs = append(s.Errs, field.Invalid(fldPath.ChildField("name"), volume.Name, LongISCSIMessage))
	}
	s.One("glusterfs", v.Glusterfs != nil, func(at *fieldrules.Path) field.ErrorList {
		return Glusterfs(v.Glusterfs.EndpointsName, v.Glusterfs.Path, at)
	})
	s.Shared(shared, "flocker")
	s.One("persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.PersistentVolumeClaim.ClaimName, at, "claimName")
	})
	s.One("rbd", v.RBD != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(Monitors(v.RBD.CephMonitors, at), fieldrules.Required(v.RBD.RBDImage, at, "image")...)
	})
	s.One("cinder", v.Cinder != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.Cinder.VolumeID, at, "volumeID"), secretName(v.Cinder.SecretRef, at)...)
	})
	s.As("cephFS", "cephfs", v.CephFS != nil, func(at *fieldrules.Path) field.ErrorList {
		return Monitors(v.CephFS.Monitors, at)
	})
	s.Shared(shared, "quobyte")
	s.As("downwarAPI", "downwardAPI", v.DownwardAPI != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(mode(v.DownwardAPI.DefaultMode, at, "defaultMode"), downward(v.DownwardAPI.Items, at)...)
	})
	s.Shared(shared, "fc")
	s.One("flexVolume", v.FlexVolume != nil, func(at *fieldrules.Path) field.ErrorList {
		return FlexVolume(v.FlexVolume.Driver, v.FlexVolume.Options, at)
	})
	s.One("configMap", v.ConfigMap != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.Required(v.ConfigMap.Name, at, "name")
		return append(errs, files(v.ConfigMap.Items, v.ConfigMap.DefaultMode, at)...)
	})
	s.One("azureFile", v.AzureFile != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.AzureFile.SecretName, at, "secretName"),
			fieldrules.Required(v.AzureFile.ShareName, at, "shareName")...)
	})
	s.Shared(shared, "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk")
	s.One("storageos", v.StorageOS != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(StorageOS(v.StorageOS.VolumeName, v.StorageOS.VolumeNamespace, at),
			secretName(v.StorageOS.SecretRef, at)...)
	})
	s.One("projected", v.Projected != nil, func(at *fieldrules.Path) field.ErrorList { return r.projected(v.Projected, at) })
	s.One("scaleIO", v.ScaleIO != nil, func(at *fieldrules.Path) field.ErrorList {
		return ScaleIO(v.ScaleIO.Gateway, v.ScaleIO.System, v.ScaleIO.VolumeName, at)
	})
	s.One("csi", v.CSI != nil, func(at *fieldrules.Path) field.ErrorList { return csi(v.CSI, at) })
	s.One("ephemeral", v.Ephemeral != nil, func(at *fieldrules.Path) field.ErrorList {
		return r.ephemeral(volume, fldPath, at)
	})
	s.One("image", v.Image != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.OneOf(v.Image.PullPolicy, at, "pullPolicy", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
		if !r.emptyImages {
			errs = append(errs, fieldrules.Required(v.Image.Reference, at, "reference")...)
		}
		return errs
	})
	if s.N == 0 {
		s.Errs = append(s.Errs, field.Required(fldPath.Field(), "must specify a volume type"))
	}
	return s.Errs
}

// ephemeral checks the claim that a volume creates.
//
//upstream:pkg/apis/core/validation.validateEphemeralVolumeSource
//upstream:pkg/apis/core/validation.ValidatePersistentVolumeClaimTemplate
func (r *rules) ephemeral(v *corev1.Volume, fldPath, at *fieldrules.Path) field.ErrorList {
	claim := at.Child("volumeClaimTemplate")
	if v.Ephemeral.VolumeClaimTemplate == nil {
		return field.ErrorList{field.Required(claim.Field(), "")}
	}
	metadata, spec := claim.Child("metadata"), claim.Child("spec")
	errs := fieldrules.TemplateMetadata(v.Ephemeral.VolumeClaimTemplate.ObjectMeta, &metadata)
	errs = append(errs, ValidateClaim(&v.Ephemeral.VolumeClaimTemplate.Spec, nil, &spec)...)
	if r.pod == nil || r.pod.Name == "" || v.Name == "" {
		return errs
	}
	name := r.pod.Name + "-" + v.Name
	for _, m := range fieldrules.NameIsSubdomain(name, false) {
		errs = append(errs, field.Invalid(fldPath.ChildField("name"), v.Name, fmt.Sprintf("PVC name %q: %v", name, m)))
	}
	return errs
}

// csi checks a csi source of a pod's volume.
//
//upstream:pkg/apis/core/validation.validateCSIVolumeSource
func csi(v *corev1.CSIVolumeSource, at *fieldrules.Path) field.ErrorList {
	errs := Driver(v.Driver, at)
	if ref := v.NodePublishSecretRef; ref != nil {
		if secret := at.Child("nodePublishSecretRef"); ref.Name == "" {
			errs = append(errs, field.Required(secret.ChildField("name"), ""))
		} else {
			errs = append(errs, fieldrules.DNSName(ref.Name, at, "name")...)
		}
	}
	return errs
}

func emptyDir(v *corev1.EmptyDirVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	if v.SizeLimit != nil && v.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(fldPath.ChildField("sizeLimit"),
			"SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

// HostPath checks a hostPath volume source.
//
//upstream:pkg/apis/core/validation.validateHostPathVolumeSource
func HostPath(v *corev1.HostPathVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	if v.Path == "" {
		return field.ErrorList{field.Required(fldPath.ChildField("path"), "")}
	}
	errs := WithoutBacksteps(v.Path, fldPath, "path")
	return append(errs, fieldrules.OptionalOneOf(v.Type, fldPath, "type", corev1.HostPathUnset,
		corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory,
		corev1.HostPathFileOrCreate, corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev,
		corev1.HostPathBlockDev)...)
}

// NFS checks an nfs volume source.
//
//upstream:pkg/apis/core/validation.validateNFSVolumeSource
func NFS(v *corev1.NFSVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(v.Server, fldPath, "server")
	errs = append(errs, fieldrules.Required(v.Path, fldPath, "path")...)
	if !path.IsAbs(v.Path) {
		errs = append(errs, field.Invalid(fldPath.ChildField("path"), v.Path, "must be an absolute path"))
	}
	return errs
}

// Driver checks the name of a storage driver.
//
//upstream:pkg/apis/core/validation.ValidateCSIDriverName
func Driver(name string, fldPath *fieldrules.Path) field.ErrorList {
	return fieldrules.DriverName(name, fldPath, "driver")
}

// files checks the files that are projected from an object's keys.
//
//upstream:pkg/apis/core/validation.validateConfigMapVolumeSource
//upstream:pkg/apis/core/validation.validateSecretVolumeSource
//upstream:pkg/apis/core/validation.validateKeyToPath
func files(items []corev1.KeyToPath, defaultMode *int32, fldPath *fieldrules.Path) field.ErrorList {
	errs := mode(defaultMode, fldPath, "defaultMode")
	list := fldPath.Child("items")
	for i := range items {
		at := list.Index(i)
		errs = append(errs, fieldrules.Required(items[i].Key, &at, "key")...)
		errs = append(errs, fileName(items[i].Path, &at)...)
		errs = append(errs, mode(items[i].Mode, &at, "mode")...)
	}
	return errs
}

func fileName(p string, fldPath *fieldrules.Path) field.ErrorList {
	if p == "" {
		return field.ErrorList{field.Required(fldPath.ChildField("path"), "")}
	}
	return nonReserved(p, fldPath, "path")
}

// nonReserved checks that a path is relative and that none of its elements begins with "..".
//
//upstream:pkg/apis/core/validation.ValidateLocalNonReservedPath
func nonReserved(p string, fldPath *fieldrules.Path, name string) field.ErrorList {
	errs := localPath(p, fldPath, name)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		errs = append(errs, field.Invalid(fldPath.ChildField(name), p, "must not start with '..'"))
	}
	return errs
}

func mode(m *int32, fldPath *fieldrules.Path, name string) field.ErrorList {
	if m == nil || *m >= 0 && *m <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath.ChildField(name), *m,
		"must be a number between 0 and 0777 (octal), both inclusive")}
}

//upstream:pkg/apis/core/validation.validateDownwardAPIVolumeFile
func downward(items []corev1.DownwardAPIVolumeFile, fldPath *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	at := fldPath // kube-apiserver's paths do not have the index
	for i := range items {
		f := &items[i]
		errs = append(errs, fileName(f.Path, at)...)
		errs = append(errs, mode(f.Mode, at, "mode")...)
		switch {
		case f.FieldRef != nil:
			ref := at.Child("fieldRef")
			errs = append(errs, fieldRef(f.FieldRef, &ref, volumeFields)...)
			if f.ResourceFieldRef != nil {
				errs = append(errs, field.Invalid(at.Field(), "resource",
					"fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case f.ResourceFieldRef != nil:
			ref := at.Child("resourceFieldRef")
			errs = append(errs, resourceFieldRef(f.ResourceFieldRef, &ref, true)...)
		default:
			errs = append(errs, field.Required(at.Field(), "one of fieldRef and resourceFieldRef is required"))
		}
	}
	return errs
}
