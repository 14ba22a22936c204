package main

import (
	"context"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const namespace = "default"

// resource is a collection that clients work on. Numbers stand in `data` of a ConfigMap, in `spec` of all others.
type resource struct {
	name string
	gvr  schema.GroupVersionResource
	kind string
}

func (r resource) in(c dynamic.Interface) dynamic.ResourceInterface {
	return c.Resource(r.gvr).Namespace(namespace)
}

// object makes one with these numbers.
func (r resource) object(name string, numbers map[string]int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(r.gvr.GroupVersion().String())
	object.SetKind(r.kind)
	object.SetName(name)
	object.SetNamespace(namespace)
	for field, number := range numbers {
		r.set(object, field, number)
	}
	return object
}

func (r resource) set(object *unstructured.Unstructured, field string, number int64) {
	var err error
	if r.kind == "ConfigMap" {
		err = unstructured.SetNestedField(object.Object, strconv.FormatInt(number, 10), "data", field)
	} else {
		err = unstructured.SetNestedField(object.Object, number, "spec", field)
	}
	if err != nil {
		panic(err) // the objects are ours
	}
}

// get returns a number of an object, 0 where there is none.
func (r resource) get(object *unstructured.Unstructured, field string) int64 {
	if r.kind == "ConfigMap" {
		text, _, _ := unstructured.NestedString(object.Object, "data", field)
		number, _ := strconv.ParseInt(text, 10, 64)
		return number
	}
	number, _, _ := unstructured.NestedInt64(object.Object, "spec", field)
	return number
}

// version is a resourceVersion, which is a number of the store.
func version(text string) uint64 {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resourceVersion %q", text))
	}
	return number
}

// list reads a whole collection from the store, not from a cache of the server.
func (r resource) list(ctx context.Context, c *client) (*unstructured.UnstructuredList, error) {
	var found *unstructured.UnstructuredList
	err := c.call("list", r.name, func() (err error) {
		found, err = r.in(c.dynamic).List(ctx, quorumRead)
		return err
	})
	return found, err
}
