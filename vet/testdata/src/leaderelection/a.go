package main

import (
	"context"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"}) // want `two replicas of this program would both reconcile`
	ctrl.NewControllerManagedBy(mgr)
	options := ctrl.Options{Address: ":8080"}
	ctrl.NewManager(nil, options) // want `two replicas of this program would both reconcile`
	ctrl.NewManager(nil, ctrl.Options{LeaderElection: true, LeaderElectionID: "x"})
	ctrl.NewManager(nil, ctrl.Options{LeaderElection: false})
	later := ctrl.Options{Address: ":8080"}
	later.LeaderElection = true
	ctrl.NewManager(nil, later)
}

func serves() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"})
	ctrl.NewControllerManagedBy(mgr)
	go func() { mgr.Start(context.Background()) }()
}

func addsAll() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"}) // want `two replicas of this program would both reconcile`
	setupControllers(mgr)
	mgr.Start(context.Background())
}

func setupControllers(mgr ctrl.Manager) {}

func webhooks() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"})
	var webhooks adder
	webhooks.AddToManager(mgr)
	mgr.Start(context.Background())
}

type adder struct{}

func (adder) AddToManager(mgr ctrl.Manager) {}

func addsByPackage() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"}) // want `two replicas of this program would both reconcile`
	var controllers adder
	controllers.AddToManager(mgr)
	mgr.Start(context.Background())
}

func profiles() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"}) // want `two replicas of this program would both reconcile`
	ctrl.NewControllerManagedBy(mgr)
	http.Handle("/metrics", http.NotFoundHandler())
	go http.ListenAndServe(":6060", nil)
	mgr.Start(context.Background())
}

func api() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"})
	ctrl.NewControllerManagedBy(mgr)
	http.HandleFunc("/apps", func(http.ResponseWriter, *http.Request) {})
	go http.ListenAndServe(":6060", nil)
	mgr.Start(context.Background())
}

func server() {
	mgr, _ := ctrl.NewManager(nil, ctrl.Options{Address: ":8080"})
	ctrl.NewControllerManagedBy(mgr)
	go http.ListenAndServe(":6060", http.NewServeMux())
	mgr.Start(context.Background())
}
