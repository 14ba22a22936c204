package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// applier owns one field of an object by server-side apply; others own other fields of the same object.
type applier struct {
	client   *client
	resource resource
	name     string
	manager  string
	ledger   *ledger

	tried        int64
	acknowledged int64
}

func (a *applier) turn(ctx context.Context) {
	a.tried++
	wanted := a.resource.object(a.name, map[string]int64{a.manager: a.tried})
	var applied *unstructured.Unstructured
	err := a.client.call("apply", a.resource.name, func() (err error) {
		options := metav1.ApplyOptions{FieldManager: a.manager}
		applied, err = a.resource.in(a.client.dynamic).Apply(ctx, a.name, wanted, options)
		return err
	})
	if err != nil {
		return
	}
	a.acknowledged = a.tried
	a.ledger.acknowledge(applied, "apply "+a.manager)
}

// conclude: the last value that was acknowledged, or a later one that was tried, and the field is still the manager's.
func (a *applier) conclude(final *unstructured.Unstructured) {
	value := a.resource.get(final, a.manager)
	if value < a.acknowledged || value > a.tried {
		a.ledger.lose(fmt.Sprintf("%s %s.%s is %d, acknowledged %d", a.resource.name, a.name, a.manager, value, a.acknowledged))
	}
	for _, entry := range final.GetManagedFields() {
		if entry.Manager == a.manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			return
		}
	}
	a.ledger.lose(fmt.Sprintf("%s %s: %s owns nothing any more", a.resource.name, a.name, a.manager))
}
