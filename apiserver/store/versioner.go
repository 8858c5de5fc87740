package store

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// versioner is the APIObjectVersioner, but reports a resource version that is not a number as an error of the client.
// The message names the field; for a list, the caller adds its own message.
type versioner struct{ apistorage.APIObjectVersioner }

// ObjectResourceVersion implements storage.Versioner.
func (v versioner) ObjectResourceVersion(obj runtime.Object) (uint64, error) {
	version, err := v.APIObjectVersioner.ObjectResourceVersion(obj)
	return version, badVersion(err)
}

// ParseResourceVersion implements storage.Versioner.
func (v versioner) ParseResourceVersion(text string) (uint64, error) {
	version, err := v.APIObjectVersioner.ParseResourceVersion(text)
	return version, badVersion(err)
}

func badVersion(err error) error {
	if err == nil {
		return nil
	}
	return apierrors.NewBadRequest(err.Error())
}
