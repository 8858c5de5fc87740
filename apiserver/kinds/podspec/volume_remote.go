package podspec

import (
	"net"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds/fieldrules"
)

// Shared checks sources of these names that a pod's volume and a persistent volume have in common.
func (s *Sources) Shared(v *corev1.PersistentVolumeSource, names ...string) {
	for _, name := range names {
		switch name {
		case "gcePersistentDisk":
			s.As(name, "persistentDisk", v.GCEPersistentDisk != nil, func(at *fieldrules.Path) field.ErrorList {
				return append(fieldrules.Required(v.GCEPersistentDisk.PDName, at, "pdName"),
					partition(v.GCEPersistentDisk.Partition, at)...)
			})
		case "awsElasticBlockStore":
			s.One(name, v.AWSElasticBlockStore != nil, func(at *fieldrules.Path) field.ErrorList {
				return append(fieldrules.Required(v.AWSElasticBlockStore.VolumeID, at, "volumeID"),
					partition(v.AWSElasticBlockStore.Partition, at)...)
			})
		case "nfs":
			s.One(name, v.NFS != nil, func(at *fieldrules.Path) field.ErrorList { return NFS(v.NFS, at) })
		case "flocker":
			s.One(name, v.Flocker != nil, func(at *fieldrules.Path) field.ErrorList { return flocker(v.Flocker, at) })
		case "quobyte":
			s.One(name, v.Quobyte != nil, func(at *fieldrules.Path) field.ErrorList { return quobyte(v.Quobyte, at) })
		case "fc":
			s.One(name, v.FC != nil, func(at *fieldrules.Path) field.ErrorList { return fibreChannel(v.FC, at) })
		case "vsphereVolume":
			s.One(name, v.VsphereVolume != nil, func(at *fieldrules.Path) field.ErrorList {
				return fieldrules.Required(v.VsphereVolume.VolumePath, at, "volumePath")
			})
		case "photonPersistentDisk":
			s.One(name, v.PhotonPersistentDisk != nil, func(at *fieldrules.Path) field.ErrorList {
				return fieldrules.Required(v.PhotonPersistentDisk.PdID, at, "pdID")
			})
		case "portworxVolume":
			s.One(name, v.PortworxVolume != nil, func(at *fieldrules.Path) field.ErrorList {
				return fieldrules.Required(v.PortworxVolume.VolumeID, at, "volumeID")
			})
		case "azureDisk":
			s.One(name, v.AzureDisk != nil, func(at *fieldrules.Path) field.ErrorList { return azureDisk(v.AzureDisk, at) })
		}
	}
}

// secretName checks that a reference to a secret has a name.
func secretName(ref *corev1.LocalObjectReference, at *fieldrules.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	secret := at.Child("secretRef")
	return fieldrules.Required(ref.Name, &secret, "name")
}

// NamespacedSecret checks that a reference to a secret in any namespace is complete.
func NamespacedSecret(ref *corev1.SecretReference, at *fieldrules.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	secret := at.Child("secretRef")
	return append(fieldrules.Required(ref.Name, &secret, "name"), fieldrules.Required(ref.Namespace, &secret, "namespace")...)
}

// partition checks the number of a partition. The message is kube-apiserver's, which allows zero.
func partition(n int32, at *fieldrules.Path) field.ErrorList {
	if n >= 0 && n <= 255 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.ChildField("partition"), n, validation.InclusiveRangeError(1, 255))}
}

// lun checks the number of a logical unit. value is what an error shows.
func lun(n int32, value any, at *fieldrules.Path) field.ErrorList {
	if n >= 0 && n <= 255 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.ChildField("lun"), value, validation.InclusiveRangeError(0, 255))}
}

// iscsiNames are the formats of names of iSCSI targets and initiators, by their prefixes.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func iscsiName(name, unknown string, at *fieldrules.Path, in string) field.ErrorList {
	format := iscsiNames[name[:min(3, len(name))]]
	switch {
	case format == nil:
		return field.ErrorList{field.Invalid(at.ChildField(in), name, unknown)}
	case !format.MatchString(name):
		return field.ErrorList{field.Invalid(at.ChildField(in), name, "must be valid format")}
	}
	return nil
}

// ISCSI checks an iscsi volume source. unknown is the message for a name of an unknown format.
func ISCSI(portal, iqn string, unit int32, initiator *string, chap, secret bool, unknown string,
	at *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(portal, at, "targetPortal")
	if iqn == "" {
		errs = append(errs, field.Required(at.ChildField("iqn"), ""))
	} else {
		errs = append(errs, iscsiName(iqn, unknown, at, "iqn")...)
	}
	errs = append(errs, lun(unit, unit, at)...)
	if chap && !secret {
		errs = append(errs, field.Required(at.ChildField("secretRef"), ""))
	}
	if initiator != nil {
		errs = append(errs, iscsiName(*initiator, unknown, at, "initiatorname")...)
	}
	return errs
}

// LongISCSI reports whether an iSCSI initiator cannot hold the name of a volume with the target portal. LongISCSIMessage says so.
//
//upstream:pkg/apis/core/validation.validateVolumeSource
//upstream:pkg/apis/core/validation.validateISCSIPersistentVolumeSource
func LongISCSI(volume, portal string) bool { return len(volume)+len(":")+len(portal) > 64 }

const LongISCSIMessage = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."

// Glusterfs checks a glusterfs volume source.
func Glusterfs(endpoints, path string, at *fieldrules.Path) field.ErrorList {
	return append(fieldrules.Required(endpoints, at, "endpoints"), fieldrules.Required(path, at, "path")...)
}

// Monitors checks that a Ceph volume source has monitors.
func Monitors(list []string, at *fieldrules.Path) field.ErrorList {
	if len(list) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(at.ChildField("monitors"), "")}
}

// FlexVolume checks a flexVolume volume source.
func FlexVolume(driver string, options map[string]string, at *fieldrules.Path) field.ErrorList {
	errs := fieldrules.Required(driver, at, "driver")
	list := at.Child("options")
	for _, key := range fieldrules.SortedKeys(options) {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
			item := list.Key(key)
			errs = append(errs, field.Invalid(item.Field(), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

// ScaleIO checks a scaleIO volume source.
func ScaleIO(gateway, system, volume string, at *fieldrules.Path) field.ErrorList {
	errs := append(fieldrules.Required(gateway, at, "gateway"), fieldrules.Required(system, at, "system")...)
	return append(errs, fieldrules.Required(volume, at, "volumeName")...)
}

// StorageOS checks a storageos volume source but for its secret.
func StorageOS(volume, namespace string, at *fieldrules.Path) field.ErrorList {
	errs := fieldrules.DNSLabel(volume, at, "volumeName")
	if namespace != "" {
		errs = append(errs, fieldrules.DNSLabel(namespace, at, "volumeNamespace")...)
	}
	return errs
}

//upstream:pkg/apis/core/validation.validateFlockerVolumeSource
func flocker(v *corev1.FlockerVolumeSource, at *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case v.DatasetName == "" && v.DatasetUUID == "":
		errs = append(errs, field.Required(at.Field(), "one of datasetName and datasetUUID is required"))
	case v.DatasetName != "" && v.DatasetUUID != "":
		errs = append(errs, field.Invalid(at.Field(), "resource",
			"datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(v.DatasetName, "/") {
		errs = append(errs, field.Invalid(at.ChildField("datasetName"), v.DatasetName, "must not contain '/'"))
	}
	return errs
}

// maxQuobyteTenant is the length of the longest tenant of a Quobyte volume.
const maxQuobyteTenant = 64

//upstream:pkg/apis/core/validation.validateQuobyteVolumeSource
func quobyte(v *corev1.QuobyteVolumeSource, at *fieldrules.Path) field.ErrorList {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	var errs field.ErrorList
	switch {
	case v.Registry == "":
		errs = append(errs, field.Required(at.ChildField("registry"), pairs))
	case len(v.Tenant) > maxQuobyteTenant:
		errs = append(errs, field.Required(at.ChildField("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(v.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(at.ChildField("registry"), v.Registry, pairs))
			}
		}
	}
	return append(errs, fieldrules.Required(v.Volume, at, "volume")...)
}

//upstream:pkg/apis/core/validation.validateFCVolumeSource
func fibreChannel(v *corev1.FCVolumeSource, at *fieldrules.Path) field.ErrorList {
	if len(v.TargetWWNs) == 0 {
		if len(v.WWIDs) > 0 {
			return nil
		}
		return field.ErrorList{field.Required(at.ChildField("targetWWNs"), "must specify either targetWWNs or wwids, but not both")}
	}
	var errs field.ErrorList
	if len(v.WWIDs) > 0 {
		errs = append(errs, field.Invalid(at.ChildField("targetWWNs"), v.TargetWWNs,
			"targetWWNs and wwids can not be specified simultaneously"))
	}
	if v.Lun == nil {
		return append(errs, field.Required(at.ChildField("lun"), "lun is required if targetWWNs is specified"))
	}
	return append(errs, lun(*v.Lun, v.Lun, at)...)
}

//upstream:pkg/apis/core/validation.validateAzureDisk
func azureDisk(v *corev1.AzureDiskVolumeSource, at *fieldrules.Path) field.ErrorList {
	errs := append(fieldrules.Required(v.DiskName, at, "diskName"), fieldrules.Required(v.DataDiskURI, at, "diskURI")...)
	errs = append(errs, fieldrules.OptionalOneOf(v.CachingMode, at, "cachingMode", corev1.AzureDataDiskCachingNone,
		corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	if v.Kind == nil {
		return errs
	}
	errs = append(errs, fieldrules.OptionalOneOf(v.Kind, at, "kind", corev1.AzureSharedBlobDisk,
		corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)...)
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *v.Kind == corev1.AzureManagedDisk {
		prefix = "/subscriptions/"
		form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, prefix) {
		errs = append(errs, field.NotSupported(at.ChildField("diskURI"), v.DataDiskURI, []string{form}))
	}
	return errs
}
