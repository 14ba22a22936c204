package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// report is what the program prints at its end.
type report struct {
	Chapters  []*chapter `json:"chapters"`
	Informers []verdict  `json:"informers"`
	// Provider: what its informers have seen together, and each by itself.
	Provider providerReport `json:"provider"`
	Leases   []*lease       `json:"leases"`
	// Lost: acknowledged writes that are not in the store, or were not at some time, in words.
	Lost []string `json:"lost"`
	// Behind: objects that controllers have not brought to where they should be, in words.
	Behind       []string       `json:"behind"`
	Reconciled   map[string]int `json:"reconciled"`
	Requeued     map[string]int `json:"requeued"`
	Acknowledged map[string]int `json:"acknowledged"` // writes by resource
}

type providerReport struct {
	Endpoints []endpointChange `json:"endpoints"`
	Informers []verdict        `json:"informers"`
	Missed    []string         `json:"missed"`
}

const (
	settleFor   = 30 * time.Second
	settleEvery = 100 * time.Millisecond
)

// finish stops the writers, waits until all others have caught up, and tells what was seen.
func (a *clients) finish(ctx context.Context) report {
	a.stopWriting()
	a.writing.Wait()
	var last report
	for end := time.Now().Add(settleFor); ; pause(ctx, settleEvery) {
		last = a.look(ctx)
		if last.isSettled() || time.Now().After(end) {
			break
		}
	}
	a.recorder.stop()
	a.conclude(ctx)
	for _, r := range resources {
		_, _, lost := a.ledgers[r.name].snapshot()
		last.Lost = append(last.Lost, lost...)
	}
	last.Chapters = a.recorder.story()
	for _, l := range a.leases {
		last.Leases = append(last.Leases, l.report())
	}
	return last
}

func (r report) isSettled() bool {
	for _, verdict := range r.Informers {
		if len(verdict.Missed)+len(verdict.StoreDiffers) > 0 {
			return false
		}
	}
	return len(r.Behind)+len(r.Provider.Missed) == 0
}

// look compares everything with a fresh list.
func (a *clients) look(ctx context.Context) report {
	found := report{
		Informers: []verdict{}, Lost: []string{}, Behind: []string{}, Acknowledged: map[string]int{},
		Reconciled: map[string]int{"controller": int(a.controller.reconcile.Load()), "provider": int(a.provider.reconciled.Load())},
		Requeued:   map[string]int{"controller": int(a.controller.requeued.Load()), "provider": int(a.provider.requeued.Load())},
	}
	lists := map[string]*unstructured.UnstructuredList{}
	for _, r := range resources {
		list, err := r.list(ctx, a.reader)
		if err != nil {
			found.Behind = append(found.Behind, "no list of "+r.name+": "+err.Error())
			return found
		}
		lists[r.name] = list
		writes, _, _ := a.ledgers[r.name].snapshot()
		found.Acknowledged[r.name] = len(writes)
	}
	for _, w := range a.watched {
		verdict := w.verdict(a.ledgers[w.resource.name])
		verdict.StoreDiffers = w.compareStore(versionsOf(lists[w.resource.name]))
		found.Informers = append(found.Informers, verdict)
	}
	found.Behind = append(a.controller.behind(lists["gadgets"], lists["configmaps"]), a.provider.behind(lists["widgets"])...)
	found.Provider = a.provider.report()
	return found
}

func versionsOf(list *unstructured.UnstructuredList) map[types.UID]string {
	versions := map[types.UID]string{}
	for _, item := range list.Items {
		versions[item.GetUID()] = item.GetResourceVersion()
	}
	return versions
}

// conclude compares what is in the store at the end with what was acknowledged.
func (a *clients) conclude(ctx context.Context) {
	for _, r := range resources {
		list, err := r.list(ctx, a.reader)
		if err != nil {
			a.ledgers[r.name].lose("no last list of " + r.name + ": " + err.Error())
			continue
		}
		objects := map[string]*unstructured.Unstructured{}
		for i := range list.Items {
			objects[list.Items[i].GetName()] = &list.Items[i]
		}
		a.concludeResource(r, objects)
	}
}

func (a *clients) concludeResource(r resource, objects map[string]*unstructured.Unstructured) {
	ledger := a.ledgers[r.name]
	find := func(name string, check func(*unstructured.Unstructured)) {
		if object := objects[name]; object != nil {
			check(object)
		} else {
			ledger.lose(r.name + " " + name + " is gone")
		}
	}
	for _, counter := range a.counters {
		if counter.resource.name == r.name {
			find(counter.name, counter.conclude)
		}
	}
	for _, applier := range a.appliers {
		if applier.resource.name == r.name {
			find(applier.name, applier.conclude)
		}
	}
	if a.kubectl.resource.name == r.name {
		find(applied, a.kubectl.conclude)
	}
	a.compareLives(r, ledger, objects)
}

// compareLives: every object that was made and not deleted is there, with a version no older than acknowledged, and
// every deleted one is gone.
func (a *clients) compareLives(r resource, ledger *ledger, objects map[string]*unstructured.Unstructured) {
	writes, lives, _ := ledger.snapshot()
	newest := map[types.UID]write{}
	for _, write := range writes {
		if write.version > newest[write.uid].version {
			newest[write.uid] = write
		}
	}
	for uid, write := range newest {
		object := objects[write.name]
		isThere := object != nil && object.GetUID() == uid
		isDead := !lives[uid].died.IsZero()
		switch {
		case isDead && isThere:
			ledger.lose(r.name + " " + write.name + " is there although its deletion was acknowledged")
		case !isDead && !isThere && !ledger.isDoomed(write.name):
			ledger.lose(r.name + " " + write.name + " is gone although nobody has deleted it")
		case isThere && version(object.GetResourceVersion()) < write.version:
			ledger.lose(r.name + " " + write.name + " is older than what was acknowledged")
		}
	}
}

// report judges the provider's informers together: an object may be seen at the one endpoint or at the other.
func (p *provider) report() providerReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := providerReport{Endpoints: append([]endpointChange{}, p.changes...), Informers: []verdict{}, Missed: []string{}}
	all := append([]*endpoint{}, p.past...)
	for _, at := range p.endpoints {
		all = append(all, at)
	}
	for _, at := range all {
		verdict := at.watched.verdict(p.ledger)
		// By itself none sees everything: what counts is Missed of all together.
		verdict.Missed = []string{}
		found.Informers = append(found.Informers, verdict)
	}
	found.Missed = unseen(p.ledger, all)
	return found
}

func unseen(l *ledger, all []*endpoint) []string {
	writes, lives, _ := l.snapshot()
	missed := []string{}
	for _, write := range writes {
		if !anySaw(all, write, lives[write.uid]) {
			missed = append(missed, write.name+" by "+write.by)
		}
	}
	return missed
}

func anySaw(all []*endpoint, write write, life life) bool {
	for _, at := range all {
		w := at.watched
		w.mu.Lock()
		seen := w.sights[write.uid]
		isSeen := seen != nil && (seen.version >= write.version || seen.isDeleted && !life.died.IsZero())
		isSeen = isSeen || seen == nil && w.isBetweenLists(life)
		w.mu.Unlock()
		if isSeen {
			return true
		}
	}
	return false
}
