package plan

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"flyball.dev/controlplane"
	"flyball.dev/lab"
)

// operatorName is the user of an operator without an identity.
const operatorName = "operator"

// addTokens makes a control plane serve a program, by HTTPS and with a token.
func (r *running) addTokens(o *controlplane.Options) {
	r.token = rand.Text()
	identity := r.world.Operator.User
	if identity.Name == "" {
		identity = User{operatorName, []string{user.SystemPrivilegedGroup}}
	}
	o.Listen = "127.0.0.1:0"
	o.Tokens = map[string]*user.DefaultInfo{r.token: {Name: identity.Name, Groups: append([]string{user.AllAuthenticated}, identity.Groups...)}}
}

// start starts an operator, which is not running.
func (r *running) start(o *Operator) error {
	r.done = make(chan error, 1)
	if o.Program != nil {
		return r.startProgram(o)
	}
	config, err := r.world.configOf(o.User, operatorName)
	if err != nil {
		return err
	}
	config.Transport = &operatorTransport{r.world.order.wrap(operatorName, config.Transport), r.world}
	config.UserAgent = operatorName
	mgr, err := o.Start(config)
	if err != nil {
		return fmt.Errorf("the operator does not start: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	r.stops = func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(2 * time.Minute):
			return errors.New("the operator has not ended two minutes after its context")
		}
	}
	go func() {
		err := mgr.Start(ctx)
		if ctx.Err() == nil {
			r.done <- errors.Join(errEnded, err)
		}
		done <- err
	}()
	return nil
}

// startProgram starts a program.
func (r *running) startProgram(o *Operator) error {
	namespace := metav1.NamespaceDefault
	if account, ok := strings.CutPrefix(o.User.Name, "system:serviceaccount:"); ok {
		namespace, _, _ = strings.Cut(account, ":")
	}
	program, err := o.Program(lab.Access{Namespace: namespace, Config: &rest.Config{Host: r.world.plane.URL(), BearerToken: r.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: r.world.plane.CA()}}})
	if err != nil {
		return fmt.Errorf("the operator does not start: %w", err)
	}
	stopping := make(chan struct{})
	r.stops = func() error {
		close(stopping)
		program.Terminate()
		select {
		case <-program.Done():
		case <-time.After(10 * time.Second):
			program.Kill()
			<-program.Done()
		}
		return nil // its exit code after a signal says nothing
	}
	done := r.done
	go func() {
		select {
		case <-program.Done():
			done <- fmt.Errorf("%w: %w", errEnded, program.Err())
		case <-stopping:
		}
	}()
	return nil
}

// ended returns a channel that receives the error of an operator that ends by itself.
func (r *running) ended() <-chan error { return r.done }

// stop ends the operator, if it runs.
func (r *running) stop() error {
	if r.stops == nil {
		return nil
	}
	stop := r.stops
	r.stops = nil
	return stop()
}
