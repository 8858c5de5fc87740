package podspec

import (
	"net"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// SharedSource checks a source that a pod's volume and a persistent volume have in common.
func SharedSource(volume check.Field, name string, v *corev1.PersistentVolumeSource) {
	switch at := volume.Child(name); name {
	case "gcePersistentDisk":
		disk := volume.Child("persistentDisk") // so kube-apiserver calls it
		check.Required(disk.Child("pdName"), v.GCEPersistentDisk.PDName)
		partition(disk.Child("partition"), v.GCEPersistentDisk.Partition)
	case "awsElasticBlockStore":
		check.Required(at.Child("volumeID"), v.AWSElasticBlockStore.VolumeID)
		partition(at.Child("partition"), v.AWSElasticBlockStore.Partition)
	case "nfs":
		nfs(at, v.NFS)
	case "flocker":
		flocker(at, v.Flocker)
	case "quobyte":
		quobyte(at, v.Quobyte)
	case "fc":
		fibreChannel(at, v.FC)
	case "vsphereVolume":
		check.Required(at.Child("volumePath"), v.VsphereVolume.VolumePath)
	case "photonPersistentDisk":
		check.Required(at.Child("pdID"), v.PhotonPersistentDisk.PdID)
	case "portworxVolume":
		check.Required(at.Child("volumeID"), v.PortworxVolume.VolumeID)
	case "azureDisk":
		azureDisk(at, v.AzureDisk)
	}
}

// secretName checks that a reference to a secret has a name.
func secretName(source check.Field, ref *corev1.LocalObjectReference) {
	if ref != nil {
		check.Required(source.Child("secretRef").Child("name"), ref.Name)
	}
}

// NamespacedSecret checks that a reference to a secret in any namespace is complete.
func NamespacedSecret(source check.Field, ref *corev1.SecretReference) {
	if ref != nil {
		check.Required(source.Child("secretRef").Child("name"), ref.Name)
		check.Required(source.Child("secretRef").Child("namespace"), ref.Namespace)
	}
}

// partition checks the number of a partition. The message is kube-apiserver's, which allows zero.
func partition(at check.Field, n int32) {
	if n < 0 || n > 255 {
		at.Invalid(n, validation.InclusiveRangeError(1, 255))
	}
}

// lun checks the number of a logical unit. value is what an error shows.
func lun(at check.Field, n int32, value any) {
	if n < 0 || n > 255 {
		at.Invalid(value, validation.InclusiveRangeError(0, 255))
	}
}

//upstream:pkg/apis/core/validation.validateNFSVolumeSource
func nfs(at check.Field, v *corev1.NFSVolumeSource) {
	check.Required(at.Child("server"), v.Server)
	check.Required(at.Child("path"), v.Path)
	if !path.IsAbs(v.Path) {
		at.Child("path").Invalid(v.Path, "must be an absolute path")
	}
}

// iscsiNames are the formats of names of iSCSI targets and initiators, by their prefixes.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func iscsiName(at check.Field, name, unknown string) {
	format := iscsiNames[name[:min(3, len(name))]]
	switch {
	case format == nil:
		at.Invalid(name, unknown)
	case !format.MatchString(name):
		at.Invalid(name, "must be valid format")
	}
}

// ISCSI checks an iscsi volume source. unknown is the message for a name of an unknown format.
func ISCSI(at check.Field, portal, iqn string, unit int32, initiator *string, chap, secret bool, unknown string) {
	check.Required(at.Child("targetPortal"), portal)
	if iqn == "" {
		at.Child("iqn").Required("")
	} else {
		iscsiName(at.Child("iqn"), iqn, unknown)
	}
	lun(at.Child("lun"), unit, unit)
	if chap && !secret {
		at.Child("secretRef").Required("")
	}
	if initiator != nil {
		iscsiName(at.Child("initiatorname"), *initiator, unknown)
	}
}

// LongISCSI reports whether an iSCSI initiator cannot hold the name of a volume with the target portal. LongISCSIMessage says so.
//
//upstream:pkg/apis/core/validation.validateVolumeSource
//upstream:pkg/apis/core/validation.validateISCSIPersistentVolumeSource
func LongISCSI(volume, portal string) bool { return len(volume)+len(":")+len(portal) > 64 }

const LongISCSIMessage = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."

// Glusterfs checks a glusterfs volume source.
func Glusterfs(at check.Field, endpoints, path string) {
	check.Required(at.Child("endpoints"), endpoints)
	check.Required(at.Child("path"), path)
}

// Monitors checks that a Ceph volume source has monitors.
func Monitors(at check.Field, list []string) {
	if len(list) == 0 {
		at.Child("monitors").Required("")
	}
}

// FlexVolume checks a flexVolume volume source.
func FlexVolume(at check.Field, driver string, options map[string]string) {
	check.Required(at.Child("driver"), driver)
	for _, key := range fieldrules.SortedKeys(options) {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
			at.Child("options").Key(key).Invalid(key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

// ScaleIO checks a scaleIO volume source.
func ScaleIO(at check.Field, gateway, system, volume string) {
	check.Required(at.Child("gateway"), gateway)
	check.Required(at.Child("system"), system)
	check.Required(at.Child("volumeName"), volume)
}

// StorageOS checks a storageos volume source but for its secret.
func StorageOS(at check.Field, volume, namespace string) {
	check.DNSLabel(at.Child("volumeName"), volume)
	check.IfSet(at.Child("volumeNamespace"), namespace, check.DNSLabel)
}

//upstream:pkg/apis/core/validation.validateFlockerVolumeSource
func flocker(at check.Field, v *corev1.FlockerVolumeSource) {
	switch {
	case v.DatasetName == "" && v.DatasetUUID == "":
		at.Required("one of datasetName and datasetUUID is required")
	case v.DatasetName != "" && v.DatasetUUID != "":
		at.Invalid("resource", "datasetName and datasetUUID can not be specified simultaneously")
	}
	if strings.Contains(v.DatasetName, "/") {
		at.Child("datasetName").Invalid(v.DatasetName, "must not contain '/'")
	}
}

// maxQuobyteTenant is the length of the longest tenant of a Quobyte volume.
const maxQuobyteTenant = 64

//upstream:pkg/apis/core/validation.validateQuobyteVolumeSource
func quobyte(at check.Field, v *corev1.QuobyteVolumeSource) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case v.Registry == "":
		at.Child("registry").Required(pairs)
	case len(v.Tenant) > maxQuobyteTenant:
		at.Child("tenant").Required("must be a UUID and may not exceed a length of 64 characters")
	default:
		for pair := range strings.SplitSeq(v.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				at.Child("registry").Invalid(v.Registry, pairs)
			}
		}
	}
	check.Required(at.Child("volume"), v.Volume)
}

//upstream:pkg/apis/core/validation.validateFCVolumeSource
func fibreChannel(at check.Field, v *corev1.FCVolumeSource) {
	switch names := at.Child("targetWWNs"); {
	case len(v.TargetWWNs) == 0:
		if len(v.WWIDs) == 0 {
			names.Required("must specify either targetWWNs or wwids, but not both")
		}
		return
	case len(v.WWIDs) > 0:
		names.Invalid(v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if v.Lun == nil {
		at.Child("lun").Required("lun is required if targetWWNs is specified")
	} else {
		lun(at.Child("lun"), *v.Lun, v.Lun)
	}
}

//upstream:pkg/apis/core/validation.validateAzureDisk
func azureDisk(at check.Field, v *corev1.AzureDiskVolumeSource) {
	check.Required(at.Child("diskName"), v.DiskName)
	check.Required(at.Child("diskURI"), v.DataDiskURI)
	check.OptionalOneOf(at.Child("cachingMode"), v.CachingMode,
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	if v.Kind == nil {
		return
	}
	check.OptionalOneOf(at.Child("kind"), v.Kind,
		corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *v.Kind == corev1.AzureManagedDisk {
		prefix = "/subscriptions/"
		form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, prefix) {
		at.Child("diskURI").NotSupported(v.DataDiskURI, form)
	}
}
