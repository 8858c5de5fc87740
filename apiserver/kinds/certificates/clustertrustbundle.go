package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// ClusterTrustBundles describes the kind ClusterTrustBundle.
//
//upstream:pkg/registry/certificates/clustertrustbundle.strategy
//upstream:pkg/apis/certificates/validation.ValidateClusterTrustBundleUpdate
//upstream:pkg/apis/certificates/v1.addConversionFuncs
//upstream:pkg/printers/internalversion.printClusterTrustBundle
func ClusterTrustBundles() kinds.Kind {
	return kinds.Of[*certificatesv1.ClusterTrustBundle]{
		Type: &certificatesv1.ClusterTrustBundle{}, List: &certificatesv1.ClusterTrustBundleList{},
		Plural: "clustertrustbundles", Cluster: true, NoUnconditionalUpdate: true,
		Name:     anyName,
		Validate: validateTrustBundle,
		ValidateCreate: func(b *certificatesv1.ClusterTrustBundle) (errs field.ErrorList) {
			if at := check.Object(&errs).Child("metadata").Child("generateName"); b.GenerateName != "" {
				check.Messages(at, b.GenerateName, trustBundleName(b.GenerateName, b.Spec.SignerName, true))
			}
			return errs
		},
		ValidateUpdate: func(b, old *certificatesv1.ClusterTrustBundle) (errs field.ErrorList) {
			check.Immutable(check.Object(&errs).Child("spec").Child("signerName"), b.Spec.SignerName, old.Spec.SignerName)
			return errs
		},
		Fields: func(b *certificatesv1.ClusterTrustBundle) fields.Set {
			return fields.Set{"spec.signerName": b.Spec.SignerName}
		},
		Bare: true,
		Columns: []metav1.TableColumnDefinition{
			columns.NameColumn,
			columns.Column("SignerName", "string", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
		},
		Row: func(b *certificatesv1.ClusterTrustBundle) []any {
			return []any{b.Name, columns.OrNone(b.Spec.SignerName)}
		},
	}
}

// validateTrustBundle checks the signer, its prefix in the name, and the certificates.
//
//upstream:pkg/apis/certificates/validation.ValidateClusterTrustBundle
func validateTrustBundle(b *certificatesv1.ClusterTrustBundle) (errs field.ErrorList) {
	object := check.Object(&errs)
	spec := object.Child("spec")
	if b.Name != "" {
		check.Messages(object.Child("metadata").Child("name"), b.Name, trustBundleName(b.Name, b.Spec.SignerName, false))
	}
	check.IfSet(spec.Child("signerName"), b.Spec.SignerName, check.SignerName)
	trustAnchors(spec.Child("trustBundle"), b.Spec.TrustBundle)
	return errs
}

//upstream:pkg/apis/certificates/validation.ValidateClusterTrustBundle
func trustBundleName(name, signer string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return fieldrules.NameIsSubdomain(name, prefix)
	}
	start := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, start)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, start)}
	}
	return fieldrules.NameIsSubdomain(rest, prefix)
}

// maxTrustBundle is the limit of a trust bundle, in bytes.
const maxTrustBundle = 1 << 20

// trustAnchors checks that a bundle has only certificates of authorities, without duplicates.
//
//upstream:pkg/apis/certificates/validation.validateTrustBundle
func trustAnchors(at check.Field, text string) {
	if len(text) > maxTrustBundle {
		at.TooLong(maxTrustBundle)
		return
	}
	var order []string
	indices, bad := map[string][]int{}, false
	block, rest := pem.Decode([]byte(text))
	for i := 0; block != nil; i++ {
		if why := notAnAnchor(block, i); why != "" {
			bad = true
			at.Invalid("<value omitted>", why)
		} else {
			key := string(block.Bytes)
			if len(indices[key]) == 0 {
				order = append(order, key)
			}
			indices[key] = append(indices[key], i)
		}
		block, rest = pem.Decode(rest)
	}
	if bad {
		return
	}
	if len(order) == 0 {
		at.Invalid("<value omitted>", "at least one trust anchor must be provided")
	}
	for _, key := range order {
		if len(indices[key]) > 1 {
			at.Invalidf("<value omitted>", "duplicate trust anchor (indices %v)", indices[key])
		}
	}
}

// notAnAnchor returns the error of a block that is no trust anchor, or an empty string.
func notAnAnchor(block *pem.Block, i int) string {
	if block.Type != "CERTIFICATE" {
		return fmt.Sprintf("entry %d has bad block type: %v", i, block.Type)
	}
	if len(block.Headers) > 0 {
		return fmt.Sprintf("entry %d has PEM block headers", i)
	}
	switch parsed, err := x509.ParseCertificate(block.Bytes); {
	case err != nil:
		return fmt.Sprintf("entry %d does not parse as X.509", i)
	case !parsed.IsCA:
		return fmt.Sprintf("entry %d does not have the CA bit set", i)
	case !parsed.BasicConstraintsValid:
		return fmt.Sprintf("entry %d has invalid basic constraints", i)
	}
	return ""
}
