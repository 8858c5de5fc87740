package controlplane

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// TestListenerFailure closes the listener, so that the server cannot accept connections any more.
func TestListenerFailure(t *testing.T) {
	plane, err := Start(context.Background(), Options{Listen: "127.0.0.1:0", WithoutControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.https.listener.Close(); err != nil {
		t.Fatal(err)
	}
	<-plane.Done()
	err = plane.Err()
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "serving https://127.0.0.1:") {
		t.Errorf("the error is %v", err)
	}
	if again := plane.Stop(); again != err {
		t.Errorf("Stop returned %v", again)
	}
}
