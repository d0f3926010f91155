// Lennard-Jones NVE, f64, sigma=eps=m=1, truncated at rc (no shift). Two references:
//  liquid_plain: Verlet half list from cells, scalar pair loop (what a good C programmer writes first)
//  liquid_cluster: IWx8 cluster pairs (IW=1,2,4), AVX-512 (without it, the same in gcc vectors), Newton-3 (GROMACS-style), state kept in cluster order
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <immintrin.h>
static int nreb; int liquid_rebuilds(){return nreb;}
static void build(const double*x,int N,double L,double rl,int*st,int*nb){ // half list by cells
  int nc=(int)(L/rl); if(nc<3)nc=3; double ic=nc/L; int*head=malloc(4*nc*nc*nc),*nxt=malloc(4*N); for(int i=0;i<nc*nc*nc;i++)head[i]=-1;
  for(int i=N-1;i>=0;i--){ int c[3]; for(int k=0;k<3;k++){ double w=x[3*i+k]; w-=L*floor(w/L); c[k]=(int)(w*ic); if(c[k]>=nc)c[k]=nc-1; } int id=(c[0]*nc+c[1])*nc+c[2]; nxt[i]=head[id]; head[id]=i; }
  int n=0; double r2c=rl*rl,iL=1/L; for(int i=0;i<N;i++){ st[i]=n; int c[3]; for(int k=0;k<3;k++){ double w=x[3*i+k]; w-=L*floor(w/L); c[k]=(int)(w*ic); if(c[k]>=nc)c[k]=nc-1; }
   for(int a=-1;a<2;a++)for(int b=-1;b<2;b++)for(int d=-1;d<2;d++){ int id=(((c[0]+a+nc)%nc)*nc+(c[1]+b+nc)%nc)*nc+(c[2]+d+nc)%nc; for(int j=head[id];j>=0;j=nxt[j]) if(j>i){ double s=0; for(int k=0;k<3;k++){ double w=x[3*i+k]-x[3*j+k]; w-=L*rint(w*iL); s+=w*w; } if(s<r2c) nb[n++]=j; } } }
  st[N]=n; free(head); free(nxt); nreb++; }
static double fplain(const double*x,double*f,int N,double L,double rc,const int*st,const int*nb){ double iL=1/L,r2c=rc*rc,pe=0; memset(f,0,24*N);
  for(int i=0;i<N;i++){ double fx=0,fy=0,fz=0,xi=x[3*i],yi=x[3*i+1],zi=x[3*i+2]; for(int q=st[i];q<st[i+1];q++){ int j=nb[q]; double dx=xi-x[3*j],dy=yi-x[3*j+1],dz=zi-x[3*j+2]; dx-=L*rint(dx*iL);dy-=L*rint(dy*iL);dz-=L*rint(dz*iL); double r2=dx*dx+dy*dy+dz*dz; if(r2<r2c){ double i2=1/r2,i6=i2*i2*i2,g=i2*i6*(48*i6-24); fx+=g*dx;fy+=g*dy;fz+=g*dz; f[3*j]-=g*dx;f[3*j+1]-=g*dy;f[3*j+2]-=g*dz; } } f[3*i]+=fx;f[3*i+1]+=fy;f[3*i+2]+=fz; } return pe; }
double liquid_pe(const double*x,int N,double L,double rc){ double iL=1/L,pe=0; for(int i=0;i<N;i++)for(int j=0;j<i;j++){ double s=0; for(int k=0;k<3;k++){ double w=x[3*i+k]-x[3*j+k]; w-=L*rint(w*iL); s+=w*w; } if(s<rc*rc){ double i6=1/(s*s*s); pe+=4*i6*(i6-1);} } return pe; }
void liquid_plain(double*x,double*v,int N,double L,double rc,double skin,double dt,int n){ int*st=malloc(4*(N+1)),*nb=malloc(4*(size_t)N*80); double*f=malloc(24*N),*x0=malloc(24*N); nreb=0;
  build(x,N,L,rc+skin,st,nb); memcpy(x0,x,24*N); fplain(x,f,N,L,rc,st,nb);
  for(int s=0;s<n;s++){ double m=0; for(int i=0;i<3*N;i++){ v[i]+=.5*dt*f[i]; x[i]+=dt*v[i]; } for(int i=0;i<N;i++){ double d=0; for(int k=0;k<3;k++){double w=x[3*i+k]-x0[3*i+k]; d+=w*w;} if(d>m)m=d; }
   if(m>.25*skin*skin){ build(x,N,L,rc+skin,st,nb); memcpy(x0,x,24*N);} fplain(x,f,N,L,rc,st,nb); for(int i=0;i<3*N;i++) v[i]+=.5*dt*f[i]; }
  free(st);free(nb);free(f);free(x0); }
// ------------------------------------------------------------------------------------------------------------
#ifdef __AVX512F__
typedef __m512d V;
#define S(x) _mm512_set1_pd(x)
#define FMA _mm512_fmadd_pd
#define FNMA _mm512_fnmadd_pd
#define MUL _mm512_mul_pd
#define ADD _mm512_add_pd
#define SUB _mm512_sub_pd
#define ld _mm512_loadu_pd
#define st _mm512_storeu_pd
#define total _mm512_reduce_add_pd
#define largest _mm512_reduce_max_pd
#define maximum _mm512_max_pd
typedef __mmask8 MASK;
#define any(m) (m)
#define LESS(a,b) _mm512_cmp_pd_mask(a,b,_CMP_LT_OQ)
#define ABOVE(k) (__mmask8)(0xff<<(k))
#define KEEP(m,a,b) _mm512_maskz_mul_pd(m,a,b)
#define RECIPROCAL(r2) V y=_mm512_rcp14_pd(r2),er=FNMA(r2,y,S(1.)); V i2=FMA(MUL(y,er),FMA(er,ADD(er,S(1.)),S(1.)),y)
#else
typedef double V __attribute__((vector_size(64))); typedef long long W __attribute__((vector_size(64)));
static inline V ld(const double*p){V v;__builtin_memcpy(&v,p,64);return v;}
static inline void st(double*p,V v){__builtin_memcpy(p,&v,64);}
static const W IOTA={0,1,2,3,4,5,6,7};
static inline double total(V v){return ((v[0]+v[4])+(v[2]+v[6]))+((v[1]+v[5])+(v[3]+v[7]));}
static inline double largest(V v){double m=v[0];for(int i=1;i<8;i++)if(v[i]>m)m=v[i];return m;}
static inline V maximum(V a,V b){W g=a>b;return (V)(((W)a&g)|((W)b&~g));}
typedef W MASK;
static inline int any(MASK m){long long x=0;for(int i=0;i<8;i++)x|=m[i];return x!=0;}
#define S(x) ((V){}+(x))
#define FMA(a,b,c) ((a)*(b)+(c))
#define FNMA(a,b,c) ((c)-(a)*(b))
#define MUL(a,b) ((a)*(b))
#define ADD(a,b) ((a)+(b))
#define SUB(a,b) ((a)-(b))
#define LESS(a,b) ((a)<(b))
#define ABOVE(k) (IOTA>((W){}+(long long)(k)-1))
#define KEEP(m,a,b) ((V)((W)MUL(a,b)&(m)))
#define RECIPROCAL(r2) V i2=S(1.)/(r2)
#endif
#ifndef IW
#define IW 2
#endif
typedef struct{int cj; float sx,sy,sz; }E; // shift added to xi (in box lengths)
typedef struct{ double*x,*y,*z,*vx,*vy,*vz,*fx,*fy,*fz,*x0,*y0,*z0; int*id; int M,nc8; E*list; int*ls; }SYS;
static int cmpz(const void*a,const void*b){ double u=*(double*)a,w=*(double*)b; return (u>w)-(u<w); }
static void cbuild(SYS*s,int N,double L,double rl){ // re-sort atoms into columns/clusters and build the 4x8 list
  int n=0; static double *px,*pv; static int*pid; static int cap=0; if(cap<N){px=malloc(24*N);pv=malloc(24*N);pid=malloc(4*N);cap=N;}
  for(int i=0;i<s->M;i++) if(s->id[i]>=0){ double w[3]={s->x[i],s->y[i],s->z[i]}; for(int k=0;k<3;k++){ w[k]-=L*floor(w[k]/L); if(w[k]>=L)w[k]=0; px[3*n+k]=w[k]; } pv[3*n]=s->vx[i];pv[3*n+1]=s->vy[i];pv[3*n+2]=s->vz[i]; pid[n++]=s->id[i]; }
  int nc=(int)(L/cbrt(8.*L*L*L/N)+.5); double ic=nc/L; int C=nc*nc; int cnt[C+1],pos[C]; memset(cnt,0,sizeof cnt); static int*col; static double*key; static int kc=0; if(kc<N){col=malloc(4*N);key=malloc(16*N);kc=N;}
  for(int i=0;i<n;i++){ int a=(int)(px[3*i]*ic),b=(int)(px[3*i+1]*ic); if(a>=nc)a=nc-1; if(b>=nc)b=nc-1; col[i]=a*nc+b; cnt[col[i]+1]++; } for(int c=0;c<C;c++)cnt[c+1]+=cnt[c]; memcpy(pos,cnt,sizeof pos);
  for(int i=0;i<n;i++){ int p=pos[col[i]]++; key[2*p]=px[3*i+2]; key[2*p+1]=i; }
  int M=0,cs[C+1]; for(int c=0;c<C;c++){ int m=cnt[c+1]-cnt[c]; qsort(key+2*cnt[c],m,16,cmpz); cs[c]=M/8; for(int k=0;k<(m+7)/8*8;k++){ if(k<m){ int i=(int)key[2*(cnt[c]+k)+1]; s->x[M]=px[3*i];s->y[M]=px[3*i+1];s->z[M]=px[3*i+2];s->vx[M]=pv[3*i];s->vy[M]=pv[3*i+1];s->vz[M]=pv[3*i+2]; s->id[M]=pid[i]; } else { s->x[M]=1e6+M*17.3;s->y[M]=1e6*(1+M%7);s->z[M]=2e6;s->vx[M]=s->vy[M]=s->vz[M]=0;s->id[M]=-1; } M++; } } cs[C]=M/8; s->M=M; s->nc8=M/8;
  memcpy(s->x0,s->x,8*M);memcpy(s->y0,s->y,8*M);memcpy(s->z0,s->z,8*M);
  // bounding boxes (real atoms only)
  int n8=M/8,n4=M/IW; static double*bb; static int bc=0; if(bc<n4){ bb=malloc(8*12*(n4+64)); bc=n4+64; } double*b8[6],*b4[6]; for(int k=0;k<6;k++){b8[k]=bb+k*bc;b4[k]=bb+(6+k)*bc;}
  for(int h=0;h<2;h++){ int w=h?IW:8; for(int c=0;c<M/w;c++){ double lo[3]={1e9,1e9,1e9},hi[3]={-1e9,-1e9,-1e9}; for(int k=0;k<w;k++){ int i=c*w+k; if(s->id[i]<0)continue; double r[3]={s->x[i],s->y[i],s->z[i]}; for(int d=0;d<3;d++){ if(r[d]<lo[d])lo[d]=r[d]; if(r[d]>hi[d])hi[d]=r[d]; } } double**B=h?b4:b8; for(int d=0;d<3;d++){ B[d][c]=.5*(lo[d]+hi[d]); B[3+d][c]=lo[d]>hi[d]?-1e9:.5*(hi[d]-lo[d]); } } }
  int R=(int)ceil(rl*ic), q=0; double r2=rl*rl,iL=1/L; double wc=L/nc;
  for(int c4=0;c4<n4;c4++){ s->ls[c4]=q; int c8=c4*IW/8; if(b4[3][c4]<-1)continue; double X=b4[0][c4],Y=b4[1][c4],Z=b4[2][c4],hx=b4[3][c4],hy=b4[4][c4],hz=b4[5][c4];
   // column of this cluster
   int lo=0,hi=C; while(hi-lo>1){int m=(lo+hi)/2; if(cs[m]<=c8)lo=m; else hi=m;} int ca=lo/nc,cb=lo%nc;
   for(int a=-R;a<=R;a++)for(int b=-R;b<=R;b++){ int cc=((ca+a+nc)%nc)*nc+(cb+b+nc)%nc; int j0=cs[cc],j1=cs[cc+1]; if(j1<=c8)continue; if(j0<c8)j0=c8; double gx=(abs(a)-1)*wc,gy=(abs(b)-1)*wc; if(gx<0)gx=0; if(gy<0)gy=0; if(gx*gx+gy*gy>r2)continue;
     for(int j=j0;j<j1;j++){ double dx=b8[0][j]-X,dy=b8[1][j]-Y,dz=b8[2][j]-Z; double ex=L*rint(dx*iL),ey=L*rint(dy*iL),ez=L*rint(dz*iL); dx=fabs(dx-ex)-hx-b8[3][j];dy=fabs(dy-ey)-hy-b8[4][j];dz=fabs(dz-ez)-hz-b8[5][j]; dx=dx>0?dx:0;dy=dy>0?dy:0;dz=dz>0?dz:0; double d2=dx*dx+dy*dy+dz*dz; if(d2<r2){
       // exact prune: any atom pair within rl?
       int ok=0; V XJ=ld(s->x+8*j),YJ=ld(s->y+8*j),ZJ=ld(s->z+8*j); for(int k=0;k<IW&&!ok;k++){ V ddx=SUB(XJ,S(s->x[IW*c4+k]+ex)),ddy=SUB(YJ,S(s->y[IW*c4+k]+ey)),ddz=SUB(ZJ,S(s->z[IW*c4+k]+ez)); ok=any(LESS(FMA(ddx,ddx,FMA(ddy,ddy,MUL(ddz,ddz))),S(r2))); }
       if(ok) s->list[q++]=(E){j,(float)(ex*iL),(float)(ey*iL),(float)(ez*iL)}; } } } }
  s->ls[n4]=q; nreb++; }
static void cforce(SYS*s,double L,double rc){ int M=s->M; memset(s->fx,0,8*M);memset(s->fy,0,8*M);memset(s->fz,0,8*M); V RC=S(rc*rc);
  for(int c=0;c<M/IW;c++){ int i=IW*c; V ax[IW],ay[IW],az[IW]; for(int k=0;k<IW;k++)ax[k]=ay[k]=az[k]=S(0.); int q0=s->ls[c],q1=s->ls[c+1];
   for(int q=q0;q<q1;q++){ E e=s->list[q]; int j=8*e.cj; V X=SUB(ld(s->x+j),S(e.sx*L)),Y=SUB(ld(s->y+j),S(e.sy*L)),Z=SUB(ld(s->z+j),S(e.sz*L)); V bx=ld(s->fx+j),by=ld(s->fy+j),bz=ld(s->fz+j); int diag=(e.cj==c*IW/8);
#define ONE(k) { V dx=SUB(S(s->x[i+k]),X),dy=SUB(S(s->y[i+k]),Y),dz=SUB(S(s->z[i+k]),Z); V r2=FMA(dx,dx,FMA(dy,dy,MUL(dz,dz))); MASK m=LESS(r2,RC); if(diag) m&=ABOVE((IW*c)%8+k+1); \
      RECIPROCAL(r2); V i6=MUL(MUL(i2,i2),i2); V g=KEEP(m,MUL(i2,i6),FMA(i6,S(48.),S(-24.))); \
      ax[k]=FMA(g,dx,ax[k]);ay[k]=FMA(g,dy,ay[k]);az[k]=FMA(g,dz,az[k]); bx=FNMA(g,dx,bx);by=FNMA(g,dy,by);bz=FNMA(g,dz,bz); }
     ONE(0)
#if IW>1
 ONE(1)
#endif
#if IW>2
 ONE(2) ONE(3)
#endif
 st(s->fx+j,bx);st(s->fy+j,by);st(s->fz+j,bz); }
   for(int k=0;k<IW;k++){ s->fx[i+k]+=total(ax[k]);s->fy[i+k]+=total(ay[k]);s->fz[i+k]+=total(az[k]); } } }
void liquid_cluster(double*x,double*v,int N,double L,double rc,double skin,double dt,int n){ int cap=2*N+4096; SYS s; double*buf=aligned_alloc(64,8*(size_t)cap*12); double**p=(double**)&s; for(int k=0;k<12;k++)p[k]=buf+(size_t)k*cap; s.id=malloc(4*cap); s.ls=malloc(4*(cap/IW+8)); s.list=malloc(sizeof(E)*(size_t)(cap/IW)*120); nreb=0;
  s.M=N; for(int i=0;i<N;i++){ s.x[i]=x[3*i];s.y[i]=x[3*i+1];s.z[i]=x[3*i+2];s.vx[i]=v[3*i];s.vy[i]=v[3*i+1];s.vz[i]=v[3*i+2];s.id[i]=i; }
  cbuild(&s,N,L,rc+skin); cforce(&s,L,rc); for(int k=0;k<n;k++){ int M=s.M; double h=k?dt:.5*dt; V m=S(0.),D=S(dt),H=S(h);
    for(int i=0;i<M;i+=8){ V a=FMA(H,ld(s.fx+i),ld(s.vx+i)),b=FMA(H,ld(s.fy+i),ld(s.vy+i)),c=FMA(H,ld(s.fz+i),ld(s.vz+i)); st(s.vx+i,a);st(s.vy+i,b);st(s.vz+i,c);
      a=FMA(D,a,ld(s.x+i));b=FMA(D,b,ld(s.y+i));c=FMA(D,c,ld(s.z+i)); st(s.x+i,a);st(s.y+i,b);st(s.z+i,c); a=SUB(a,ld(s.x0+i));b=SUB(b,ld(s.y0+i));c=SUB(c,ld(s.z0+i)); m=maximum(m,FMA(a,a,FMA(b,b,MUL(c,c)))); }
    if(largest(m)>.25*skin*skin) cbuild(&s,N,L,rc+skin); cforce(&s,L,rc); }
  for(int i=0;i<s.M;i++) if(s.id[i]>=0){ int o=s.id[i]; double h=.5*dt; x[3*o]=s.x[i];x[3*o+1]=s.y[i];x[3*o+2]=s.z[i];v[3*o]=s.vx[i]+h*s.fx[i];v[3*o+1]=s.vy[i]+h*s.fy[i];v[3*o+2]=s.vz[i]+h*s.fz[i]; }
  free(buf);free(s.id);free(s.ls);free(s.list); }
