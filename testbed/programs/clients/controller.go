package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// controller reconciles gadgets: it keeps `status.observed` equal to `spec.count`, and a ConfigMap of the same number
// beside each. It builds on what its informers have, as controllers do, so it meets conflicts when they are behind.
type controller struct {
	client    *client
	gadgets   *watched
	mirrors   *watched
	gadget    resource
	ledgers   map[string]*ledger
	queue     workqueue.TypedRateLimitingInterface[string]
	reconcile atomic.Int64
	requeued  atomic.Int64
}

// isOurs: churned objects are gone before a controller has come to them.
func isOurs(name string) bool {
	return len(name) > 7 && name[:7] == "counter"
}

func mirrorOf(name string) string {
	return "mirror-" + name
}

func (c *controller) start(ctx context.Context) error {
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	_, err := c.gadgets.informer.AddEventHandler(enqueueing(c.queue))
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	go work(ctx, c.queue, &c.reconcile, &c.requeued, c.sync)
	return nil
}

// lull gathers the changes of an object, so that its writers come through beside its controller.
const lull = 300 * time.Millisecond

func enqueueing(queue workqueue.TypedRateLimitingInterface[string]) cache.ResourceEventHandler {
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.AddAfter(key, lull)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
}

// work takes keys from a queue until it is shut down. What fails comes back later.
func work(
	ctx context.Context,
	queue workqueue.TypedRateLimitingInterface[string],
	reconciled, requeued *atomic.Int64,
	sync func(context.Context, string) error,
) {
	for {
		key, isOver := queue.Get()
		if isOver {
			return
		}
		reconciled.Add(1)
		if err := sync(ctx, key); err != nil {
			requeued.Add(1)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func (c *controller) sync(ctx context.Context, key string) error {
	found, exists, err := c.gadgets.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return err
	}
	gadget := found.(*unstructured.Unstructured)
	if !isOurs(gadget.GetName()) {
		return nil
	}
	count := c.gadget.get(gadget, "count")
	return errors.Join(c.mirror(ctx, gadget.GetName(), count), c.observe(ctx, gadget, count))
}

func (c *controller) observe(ctx context.Context, cached *unstructured.Unstructured, count int64) error {
	if observed, found, _ := unstructured.NestedInt64(cached.Object, "status", "observed"); found && observed == count {
		return nil
	}
	gadget := cached.DeepCopy()
	if err := unstructured.SetNestedField(gadget.Object, count, "status", "observed"); err != nil {
		return err
	}
	return c.client.call("update", "gadgets", func() error {
		updated, err := c.gadget.in(c.client.dynamic).UpdateStatus(ctx, gadget, metav1.UpdateOptions{})
		if err == nil {
			c.ledgers["gadgets"].acknowledge(updated, "controller")
		}
		return err
	})
}

func (c *controller) mirror(ctx context.Context, name string, count int64) error {
	configMaps := c.client.typed.CoreV1().ConfigMaps(namespace)
	lister := corev1listers.NewConfigMapLister(c.mirrors.informer.GetIndexer())
	cached, err := lister.ConfigMaps(namespace).Get(mirrorOf(name))
	wanted := strconv.FormatInt(count, 10)
	if apierrors.IsNotFound(err) {
		return c.client.call("create", "configmaps", func() error {
			made := &corev1.ConfigMap{Data: map[string]string{"count": wanted}}
			made.Name = mirrorOf(name)
			created, err := configMaps.Create(ctx, made, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil // the informer has not come to it yet
			}
			if err == nil {
				c.ledgers["configmaps"].acknowledge(created, "controller")
			}
			return err
		})
	}
	if err != nil || cached.Data["count"] == wanted {
		return err
	}
	changed := cached.DeepCopy()
	changed.Data = map[string]string{"count": wanted}
	return c.client.call("update", "configmaps", func() error {
		updated, err := configMaps.Update(ctx, changed, metav1.UpdateOptions{})
		if err == nil {
			c.ledgers["configmaps"].acknowledge(updated, "controller")
		}
		return err
	})
}

// behind tells what is not as it should be, in words.
func (c *controller) behind(gadgets, configMaps *unstructured.UnstructuredList) []string {
	mirrors := map[string]string{}
	for _, item := range configMaps.Items {
		mirrors[item.GetName()], _, _ = unstructured.NestedString(item.Object, "data", "count")
	}
	behind := []string{}
	for _, item := range gadgets.Items {
		if !isOurs(item.GetName()) {
			continue
		}
		count := c.gadget.get(&item, "count")
		observed, _, _ := unstructured.NestedInt64(item.Object, "status", "observed")
		mirror := mirrors[mirrorOf(item.GetName())]
		if observed != count || mirror != strconv.FormatInt(count, 10) {
			behind = append(behind, fmt.Sprintf("%s counts %d, status %d, mirror %s", item.GetName(), count, observed, mirror))
		}
	}
	return behind
}
