package podspec

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// volumes checks a pod's volumes.
func volumes(s *corev1.PodSpec, fldPath *fieldrules.Path) field.ErrorList {
	if len(s.Volumes) == 0 {
		return nil
	}
	var errs field.ErrorList
	list := fldPath.Child("volumes")
	for i := range s.Volumes {
		v, at := &s.Volumes[i], list.Index(i)
		errs = append(errs, fieldrules.DNSLabel(v.Name, &at, "name")...)
		for j := range s.Volumes[:i] {
			if v.Name != "" && s.Volumes[j].Name == v.Name {
				errs = append(errs, field.Duplicate(at.ChildField("name"), v.Name))
				break
			}
		}
		errs = append(errs, volumeSource(&v.VolumeSource, &at)...)
	}
	return errs
}

// Sources counts the sources of a volume, which must have exactly one, and checks the first.
type Sources struct {
	W    *fieldrules.Path
	N    int
	Errs field.ErrorList
}

func (s *Sources) One(name string, set bool, check func(at *fieldrules.Path) field.ErrorList) {
	if !set {
		return
	}
	at := s.W.Child(name)
	if s.N++; s.N > 1 {
		s.Errs = append(s.Errs, field.Forbidden(at.Field(), "may not specify more than 1 volume type"))
		return
	}
	if check != nil {
		s.Errs = append(s.Errs, check(&at)...)
	}
}

// volumeSource checks the source of a volume.
func volumeSource(v *corev1.VolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	s := Sources{W: fldPath}
	s.One("emptyDir", v.EmptyDir != nil, func(at *fieldrules.Path) field.ErrorList { return emptyDir(v.EmptyDir, at) })
	s.One("hostPath", v.HostPath != nil, func(at *fieldrules.Path) field.ErrorList { return HostPath(v.HostPath, at) })
	s.One("secret", v.Secret != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.Required(v.Secret.SecretName, at, "secretName")
		return append(errs, files(v.Secret.Items, v.Secret.DefaultMode, at)...)
	})
	s.One("configMap", v.ConfigMap != nil, func(at *fieldrules.Path) field.ErrorList {
		errs := fieldrules.Required(v.ConfigMap.Name, at, "name")
		return append(errs, files(v.ConfigMap.Items, v.ConfigMap.DefaultMode, at)...)
	})
	s.One("downwardAPI", v.DownwardAPI != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(mode(v.DownwardAPI.DefaultMode, at, "defaultMode"), downward(v.DownwardAPI.Items, at)...)
	})
	s.One("projected", v.Projected != nil, func(at *fieldrules.Path) field.ErrorList { return projected(v.Projected, at) })
	s.One("persistentVolumeClaim", v.PersistentVolumeClaim != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.PersistentVolumeClaim.ClaimName, at, "claimName")
	})
	s.One("ephemeral", v.Ephemeral != nil, func(at *fieldrules.Path) field.ErrorList {
		if v.Ephemeral.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(at.ChildField("volumeClaimTemplate"), "")}
		}
		template := at.Child("volumeClaimTemplate")
		spec := template.Child("spec")
		return ValidateClaim(&v.Ephemeral.VolumeClaimTemplate.Spec, &spec)
	})
	s.One("csi", v.CSI != nil, func(at *fieldrules.Path) field.ErrorList { return Driver(v.CSI.Driver, at) })
	s.One("image", v.Image != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.Image.Reference, at, "reference")
	})
	remoteSource(v, &s)
	if s.N == 0 {
		s.Errs = append(s.Errs, field.Required(fldPath.Field(), "must specify a volume type"))
	}
	return s.Errs
}

// remoteSource checks the sources of network storage.
func remoteSource(v *corev1.VolumeSource, s *Sources) {
	s.One("nfs", v.NFS != nil, func(at *fieldrules.Path) field.ErrorList { return NFS(v.NFS, at) })
	s.One("gcePersistentDisk", v.GCEPersistentDisk != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.GCEPersistentDisk.PDName, at, "pdName")
	})
	s.One("awsElasticBlockStore", v.AWSElasticBlockStore != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.AWSElasticBlockStore.VolumeID, at, "volumeID")
	})
	s.One("gitRepo", v.GitRepo != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.GitRepo.Repository, at, "repository")
	})
	s.One("iscsi", v.ISCSI != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.ISCSI.TargetPortal, at, "targetPortal"),
			fieldrules.Required(v.ISCSI.IQN, at, "iqn")...)
	})
	s.One("glusterfs", v.Glusterfs != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.Glusterfs.EndpointsName, at, "endpoints"),
			fieldrules.Required(v.Glusterfs.Path, at, "path")...)
	})
	s.One("rbd", v.RBD != nil, func(at *fieldrules.Path) field.ErrorList {
		if len(v.RBD.CephMonitors) == 0 {
			return field.ErrorList{field.Required(at.ChildField("monitors"), "")}
		}
		return fieldrules.Required(v.RBD.RBDImage, at, "image")
	})
	s.One("flexVolume", v.FlexVolume != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.FlexVolume.Driver, at, "driver")
	})
	s.One("cinder", v.Cinder != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.Cinder.VolumeID, at, "volumeID")
	})
	s.One("cephfs", v.CephFS != nil, func(at *fieldrules.Path) field.ErrorList {
		if len(v.CephFS.Monitors) == 0 {
			return field.ErrorList{field.Required(at.ChildField("monitors"), "")}
		}
		return nil
	})
	s.One("azureFile", v.AzureFile != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.AzureFile.SecretName, at, "secretName"),
			fieldrules.Required(v.AzureFile.ShareName, at, "shareName")...)
	})
	s.One("azureDisk", v.AzureDisk != nil, func(at *fieldrules.Path) field.ErrorList {
		return append(fieldrules.Required(v.AzureDisk.DiskName, at, "diskName"),
			fieldrules.Required(v.AzureDisk.DataDiskURI, at, "diskURI")...)
	})
	s.One("vsphereVolume", v.VsphereVolume != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.VsphereVolume.VolumePath, at, "volumePath")
	})
	s.One("portworxVolume", v.PortworxVolume != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.PortworxVolume.VolumeID, at, "volumeID")
	})
	s.One("photonPersistentDisk", v.PhotonPersistentDisk != nil, func(at *fieldrules.Path) field.ErrorList {
		return fieldrules.Required(v.PhotonPersistentDisk.PdID, at, "pdID")
	})
	s.One("fc", v.FC != nil, nil)
	s.One("flocker", v.Flocker != nil, nil)
	s.One("quobyte", v.Quobyte != nil, nil)
	s.One("scaleIO", v.ScaleIO != nil, nil)
	s.One("storageos", v.StorageOS != nil, nil)
}

func emptyDir(v *corev1.EmptyDirVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	if v.SizeLimit != nil && v.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(fldPath.ChildField("sizeLimit"),
			"SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

// HostPath checks a hostPath volume source.
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
func NFS(v *corev1.NFSVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(v.Server, fldPath, "server")
	errs = append(errs, fieldrules.Required(v.Path, fldPath, "path")...)
	if v.Path != "" && !path.IsAbs(v.Path) {
		errs = append(errs, field.Invalid(fldPath.ChildField("path"), v.Path, "must be an absolute path"))
	}
	return errs
}

// Driver checks the name of a storage driver.
func Driver(name string, fldPath *fieldrules.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(fldPath.ChildField("driver"), "")}
	}
	if len(name) > 63 {
		return field.ErrorList{field.TooLong(fldPath.ChildField("driver"), name, 63)}
	}
	return fieldrules.Invalid(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, fldPath, "driver")
}

// files checks the files that are projected from an object's keys.
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
	errs := localPath(p, fldPath, "path")
	if strings.HasPrefix(p, "..") && len(p) > 2 && p[2] != '/' {
		errs = append(errs, field.Invalid(fldPath.ChildField("path"), p, "must not start with '..'"))
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

// projected checks the sources of a projected volume.
func projected(v *corev1.ProjectedVolumeSource, fldPath *fieldrules.Path) field.ErrorList {
	errs := mode(v.DefaultMode, fldPath, "defaultMode")
	list := fldPath.Child("sources")
	for i := range v.Sources {
		p, at := &v.Sources[i], list.Index(i)
		s := Sources{W: &at}
		s.One("secret", p.Secret != nil, func(at *fieldrules.Path) field.ErrorList {
			return append(fieldrules.Required(p.Secret.Name, at, "name"), files(p.Secret.Items, nil, at)...)
		})
		s.One("configMap", p.ConfigMap != nil, func(at *fieldrules.Path) field.ErrorList {
			return append(fieldrules.Required(p.ConfigMap.Name, at, "name"), files(p.ConfigMap.Items, nil, at)...)
		})
		s.One("downwardAPI", p.DownwardAPI != nil, func(at *fieldrules.Path) field.ErrorList {
			return downward(p.DownwardAPI.Items, at)
		})
		s.One("serviceAccountToken", p.ServiceAccountToken != nil, func(at *fieldrules.Path) field.ErrorList {
			return projectedToken(p.ServiceAccountToken, at, fldPath)
		})
		s.One("clusterTrustBundle", p.ClusterTrustBundle != nil, func(at *fieldrules.Path) field.ErrorList {
			return fileName(p.ClusterTrustBundle.Path, at)
		})
		s.One("podCertificate", p.PodCertificate != nil, func(at *fieldrules.Path) field.ErrorList {
			return fieldrules.Required(p.PodCertificate.SignerName, at, "signerName")
		})
		errs = append(errs, s.Errs...)
	}
	return errs
}

// projectedToken checks a token of the source at fldPath of a projected volume. The path of its file
// is reported as that of the volume.
func projectedToken(t *corev1.ServiceAccountTokenProjection, fldPath, volume *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if t.ExpirationSeconds != nil && *t.ExpirationSeconds < 600 {
		errs = append(errs, field.Invalid(fldPath.ChildField("expirationSeconds"), *t.ExpirationSeconds,
			"may not specify a duration less than 10 minutes"))
	}
	if t.ExpirationSeconds != nil && *t.ExpirationSeconds > 1<<32 {
		errs = append(errs, field.Invalid(fldPath.ChildField("expirationSeconds"), *t.ExpirationSeconds,
			"may not specify a duration larger than 2^32 seconds"))
	}
	if t.Path == "" {
		return append(errs, field.Required(volume.ChildField("path"), ""))
	}
	return append(errs, fileName(t.Path, fldPath)...)
}
